"""What `unstick nodes check` says of many nodes: what they share is said once, and no node is left out."""

import pytest

from service.app.check_nodes import NodeCheck, Part
from service.cli.nodes import say_rows


def test_nodes_that_fail_alike_share_a_line_and_all_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    alike = [NodeCheck(f"gpu-{number}", (), Part.LOGIN, "There is no key.") for number in range(1, 8)]
    ready = [NodeCheck(name, tuple(Part), None, "uid 0") for name in ("a", "b")]
    other = NodeCheck("c", (Part.REACHED,), Part.BASH, "It has no bash.")

    assert list(say_rows([*alike, *ready, other])) == [*alike, *ready, other]
    assert capsys.readouterr().out.splitlines() == [
        "gpu-1, gpu-2, gpu-3, gpu-4, gpu-5, gpu-6, gpu-7  NOT READY, login: There is no key.",
        "a  ready: uid 0",
        "b  ready: uid 0",
        "c  NOT READY, bash: It has no bash.",
    ]
