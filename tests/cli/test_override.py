"""override: refused where the policy does not allow it, shown before it is asked for, and asked by the node's name."""

from collections.abc import Iterator

import pytest

from service.domain.person import Role
from tests.cli.installation import Serving, Someone, eventually


@pytest.fixture(scope="module")
def eve(service: Serving) -> Someone:
    """Give somebody who may break glass."""
    return Someone(service.place, service.url, service.place.token("eve", Role.OPERATOR, Role.BREAK_GLASS))


@pytest.fixture(scope="module")
def allowed(service: Serving) -> Iterator[None]:
    """Let the policy allow it."""
    policy = service.place.folder / "config" / "policy.yaml"
    policy.write_text("break_glass: true\n")
    yield
    policy.unlink()


def test_it_is_refused_where_the_policy_says_nothing_of_it(eve: Someone, node: str) -> None:
    gate = eve.run(eve.request("second", node))["gates"][0]

    done = eve("override", gate["id"], "--reason", "nobody answers")

    assert (done.returncode, done.stdout) == (2, "")
    assert "No gate may be overridden here: the policy does not say `break_glass: true`." in done.stderr


@pytest.mark.usefixtures("allowed")
@pytest.mark.parametrize(("typed", "code", "state"), [("yes", 1, "open"), (None, 0, "overridden")])
def test_on_a_terminal_only_the_name_of_the_node_overrides(
    eve: Someone, node: str, typed: str | None, code: int, state: str
) -> None:
    run_id = eve.request("second", node)

    answer = f"{node if typed is None else typed}\n"
    ended, seen = eve.on_terminal("override", run_id, "--reason", "nobody answers", answer=answer)

    assert (ended, eve.run(run_id)["gates"][0]["state"]) == (code, state)
    assert f"thing-of-{node}" in seen.partition("Type the name of the node")[0]


@pytest.mark.usefixtures("allowed")
def test_the_digest_that_was_seen_overrides_without_a_question_and_the_run_shows_it(eve: Someone, node: str) -> None:
    run_id = eve.request("second", node)
    gate = eve.run(run_id)["gates"][0]

    asked = eve("override", run_id, "--reason", "nobody answers")
    done = eve("override", run_id, "--digest", gate["digest"], "--reason", "nobody answers")

    assert (asked.returncode, "--digest" in asked.stderr) == (2, True)
    assert done.stdout.splitlines() == [f"gate {gate['id']} OVERRIDDEN, and every receiver of notices is told"]
    eventually(lambda: eve.run(run_id)["state"] == "succeeded")
    shown = eve("show", run_id).stdout
    assert "overridden" in shown
    assert "eve" in shown
