"""`unstick pause`, `resume` and `breaker` against a running service."""

from collections.abc import Iterator

import pytest

from service.domain.person import Role
from tests.cli.installation import Serving, Someone


@pytest.fixture
def adam(service: Serving) -> Iterator[Someone]:
    """Give an admin, and end a pause that a test has left."""
    admin = Someone(service.place, service.url, service.place.token("adam", Role.ADMIN))
    yield admin
    admin("resume", "--reason", "the test is over")


def test_an_admin_pauses_and_resumes_alerts_and_sees_who_did(adam: Someone, vera: Someone) -> None:
    refused = vera("pause", "--reason", "may I")
    paused = adam("pause", "--reason", "a rule is wrong")
    again = adam("pause", "--reason", "a rule is wrong")
    seen = vera("breaker", "show")
    reset = adam("breaker", "reset", "blast-radius", "--reason", "nothing was wrong")
    resumed = adam("resume", "--reason", "it is mended")
    after = vera("breaker", "show")

    assert refused.returncode == 2
    assert "It takes the role admin." in refused.stderr
    assert (paused.returncode, paused.stdout) == (
        0,
        "Alerts are recorded and held. `unstick resume --reason ...` ends it.\n",
    )
    assert again.returncode == 2
    assert "Alerts are paused by adam: a rule is wrong" in again.stderr
    assert seen.stdout == "paused by adam: a rule is wrong\nbreaker blast-radius: closed\n"
    assert reset.returncode == 2
    assert "The breaker blast-radius is not latched." in reset.stderr
    assert resumed.stdout == "Alerts may start runs. Judged again, of those held: 0.\n"
    assert after.stdout == "not paused\nbreaker blast-radius: closed\n"
