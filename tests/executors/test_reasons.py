"""What is said of a script that could not look names the way out."""

from datetime import UTC, datetime

import pytest

from service.domain.node import Endpoint, ExecutorKind
from service.domain.script import Facts
from service.executors.reasons import wrong_view

SSH, LOCAL = ExecutorKind.SSH, ExecutorKind.LOCAL
PRIVATE = "If what unstick sees here is what is meant, write `view: private`; else run it outside its container."


@pytest.mark.parametrize(
    ("executor", "init_name", "mounts_are_init", "way_out"),
    [
        (
            SSH,
            "systemd",
            True,
            "If it is a booted container, write `view: boot`; else log in to the machine itself as root.",
        ),
        (SSH, "systemd", False, "Log in to the machine itself as root, in the namespaces of its PID 1."),
        (SSH, "sleep", True, "Log in to the machine itself as root, in the namespaces of its PID 1."),
        (LOCAL, "sleep", True, PRIVATE),
    ],
)
def test_a_wrong_view_is_told_with_the_one_that_would_be_right(
    executor: ExecutorKind, init_name: str, mounts_are_init: bool, way_out: str
) -> None:
    facts = Facts("b", 0, datetime(2026, 6, 1, tzinfo=UTC), 4026532000, mounts_are_init, init_name)

    said = wrong_view(Endpoint("gpu-01", executor, "gpu-01"), facts)

    assert said.endswith(f"so nothing was started. {way_out}")
    assert "view: machine of gpu-01" in said
