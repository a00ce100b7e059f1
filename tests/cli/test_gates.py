"""approve and deny: what is shown, who is asked, who is refused."""

import pytest

from service.domain.person import Role
from tests.cli.installation import Serving, Someone, eventually


@pytest.fixture(scope="session")
def ann_too(service: Serving) -> Someone:
    """Give a second token of the operator, with the role of an approver."""
    return Someone(
        service.place, service.url, service.place.token("ann-too", Role.APPROVER, Role.OPERATOR, person="ann")
    )


def test_approve_shows_what_the_check_saw_and_asks(ann: Someone, bob: Someone, node: str) -> None:
    run_id = ann.request("second", node)
    gate = ann.run(run_id)["gates"][0]

    done = bob("approve", gate["id"], "--yes", "--reason", "seen")

    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:4] == [
        f"second on {node}, step touch",
        "requested by ann",
        "What the check printed:",
        f"   looked at {node}",
    ]
    # What else the survey says is of the machine that the tests run on.
    unasked = "foreign owners (the inventory names no cluster of the node), pods (the node has no k8s_name)"
    assert any(line.startswith(f"   Not asked, so not known: {unasked}") for line in lines[4:-4])
    assert lines[-4:] == [
        "It would act on exactly:",
        f"   thing-of-{node}",
        f"digest {gate['digest']}, expires at {gate['expires_at']}",
        f"gate {gate['id']} approved",
    ]
    eventually(lambda: ann.run(run_id)["state"] == "succeeded")


def test_nobody_is_asked_where_nobody_sits(ann: Someone, bob: Someone, node: str) -> None:
    run_id = ann.request("second", node)

    done = bob("approve", run_id, answer="yes\n")

    assert done.returncode == 2
    assert "--digest" in done.stderr
    assert ann.run(run_id)["gates"][0]["state"] == "open"


@pytest.mark.parametrize(
    ("answer", "code", "state"), [("yes\n", 0, "approved"), ("no\n", 1, "open"), ("\n", 1, "open")]
)
def test_on_a_terminal_a_person_is_asked_and_only_yes_approves(
    ann: Someone, bob: Someone, node: str, answer: str, code: int, state: str
) -> None:
    run_id = ann.request("second", node)

    ended, seen = bob.on_terminal("approve", run_id, answer=answer)

    assert (ended, ann.run(run_id)["gates"][0]["state"]) == (code, state)
    assert f"thing-of-{node}" in seen.partition("Approve? Type yes:")[0]


def test_another_digest_than_the_gates_is_refused(ann: Someone, bob: Someone, node: str) -> None:
    run_id = ann.request("second", node)

    done = bob("approve", run_id, "--digest", "0" * 64)

    assert done.returncode == 2
    assert ann.run(run_id)["gates"][0]["state"] == "open"


def test_the_digest_that_was_seen_approves_without_a_question(ann: Someone, bob: Someone, node: str) -> None:
    run_id = ann.request("second", node)

    done = bob("approve", run_id, "--digest", ann.run(run_id)["gates"][0]["digest"])

    assert done.returncode == 0, done.stderr
    assert ann.run(run_id)["gates"][0]["decided_by"] == "bob"


def test_an_operator_may_confirm_his_own_run(ann: Someone, node: str) -> None:
    run_id = ann.request("confirm", node)

    done = ann("approve", run_id, "--yes")

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("verb", [("approve", "--yes"), ("deny", "--reason", "no")])
def test_who_requested_may_not_answer_with_a_second_token(
    ann: Someone, ann_too: Someone, node: str, verb: tuple[str, ...]
) -> None:
    run_id = ann.request("second", node)

    done = ann_too(verb[0], run_id, *verb[1:])

    assert done.returncode == 2
    assert "ann requested this run and may not answer its gate." in done.stderr
    assert done.stdout == ""
    assert ann.run(run_id)["gates"][0]["state"] == "open"


def test_a_viewer_may_not_approve(ann: Someone, vera: Someone, node: str) -> None:
    run_id = ann.request("second", node)

    done = vera("approve", run_id, "--yes")

    assert done.returncode == 2
    assert ann.run(run_id)["gates"][0]["state"] == "open"


def test_a_gate_is_answered_once(ann: Someone, bob: Someone, node: str) -> None:
    gate = ann.run(ann.request("second", node))["gates"][0]
    bob("deny", gate["id"], "--reason", "not tonight")

    done = bob("approve", gate["id"], "--yes")

    assert (done.returncode, done.stdout) == (2, "")
    assert "denied by bob: not tonight" in done.stderr


def test_an_expired_gate_is_told_as_expired_and_leaves_no_lock(ann: Someone, node: str) -> None:
    run_id = ann.request("brief", node)
    gate = ann.run(run_id)["gates"][0]
    eventually(lambda: ann.run(run_id)["state"] == "expired")

    late = ann("approve", gate["id"], "--yes")
    again = ann("run", "free", "--node", node, "--wait")

    assert late.returncode == 2
    assert "expired" in late.stderr
    assert "nothing was run" in late.stderr
    assert "sk again" in late.stderr
    assert again.returncode == 0


def test_deny_without_a_reason_is_refused(ann: Someone, bob: Someone, node: str) -> None:
    run_id = ann.request("second", node)

    done = bob("deny", run_id)

    assert done.returncode == 2
    assert "--reason" in done.stderr
