"""Gates over HTTP."""

from datetime import timedelta
from typing import Any

import pytest

from service.app.show_run import MOST_SAID
from service.app.tokens import create_token
from service.domain.person import Role
from service.domain.script import OutputChunk, Stream
from tests.support.world import SteppedClock, World
from tests.web.api import CURE, Api, problem
from tests.web.conftest import TARGET

#: What one gate says beside what a list says of it.
IN_FULL = ("check_output", "survey", "unconfined", "needs_reason", "may_override")


def open_gate(api: Api, world: World, node: str) -> dict[str, Any]:
    """Request the cure of a node and return the gate at which it stops."""
    run_id = api.request(node)
    world.settle()
    [gate] = [one for one in api.get("/approvals").json()["items"] if one["run_id"] == run_id]
    return dict(gate)


@pytest.fixture
def confirm(api: Api, world: World) -> dict[str, Any]:
    """Give a gate that the requester may answer too."""
    return open_gate(api, world, "gpu-01")


@pytest.fixture
def second_person(api: Api, world: World) -> dict[str, Any]:
    """Give a gate that a second person must answer."""
    return open_gate(api, world, "gpu-02")


def test_a_gate_is_listed_with_what_the_check_found(confirm: dict[str, Any]) -> None:
    shown = {name: confirm[name] for name in ("node", "step", "kind", "state", "targets", "runbook", "requested_by")}

    assert shown == {
        "node": "gpu-01",
        "step": "abort-dead",
        "kind": "confirm",
        "state": "open",
        "targets": [TARGET],
        "runbook": "abort-stuck-fuse",
        "requested_by": "operator",
    }


def test_a_gate_carries_what_its_check_has_said_and_a_list_does_not(api: Api, confirm: dict[str, Any]) -> None:
    shown = api.get(f"/approvals/{confirm['id']}").json()
    output = api.get(f"/attempts/{confirm['check_attempt_id']}/output")

    assert shown["check_output"] == {"stdout": "connection 57 is stuck\n", "stderr": "", "truncated": False}
    assert (shown["survey"], shown["unconfined"]) == (None, "")
    assert {name: value for name, value in shown.items() if name not in IN_FULL} == confirm
    assert output.content == b"connection 57 is stuck\n"


def test_what_a_check_has_said_is_bounded_and_moves_no_cursor(api: Api, world: World, confirm: dict[str, Any]) -> None:
    attempt_id = confirm["check_attempt_id"]
    for stream, offset, data in ((Stream.STDOUT, 23, b"x" * MOST_SAID), (Stream.STDERR, 0, b"\x1b[2J\xff\n")):
        chunk = OutputChunk(attempt_id, stream, offset, data)
        world.service.store.write(lambda transaction, chunk=chunk: transaction.add_output(chunk))  # type: ignore[misc]

    said = api.get(f"/approvals/{confirm['id']}").json()["check_output"]

    assert (len(said["stdout"]), said["truncated"]) == (MOST_SAID, True)
    assert said["stderr"] == "\\x1b[2J\N{REPLACEMENT CHARACTER}\n"


def test_the_requester_confirms_after_seeing_the_check(api: Api, world: World, confirm: dict[str, Any]) -> None:
    answer = api.post(f"/approvals/{confirm['id']}/approve", {"digest": confirm["digest"], "reason": "seen"})
    world.settle()

    gate = answer.json()
    assert (answer.status_code, gate["state"], gate["decided_by"], gate["reason"]) == (
        200,
        "approved",
        "operator",
        "seen",
    )
    assert api.get(f"/runs/{confirm['run_id']}").json()["nodes"][0]["verdict"] == "cured"


def test_a_reader_is_told_that_he_may_not_answer(api: Api, confirm: dict[str, Any]) -> None:
    seen = {
        role: api.get(f"/approvals/{confirm['id']}", role=role).json()["may_answer"]
        for role in Role
        if role != "source"
    }

    assert seen == {"viewer": False, "operator": True, "approver": True, "admin": False, "break-glass": False}


def test_an_operator_may_not_answer_a_second_person_gate(api: Api, second_person: dict[str, Any]) -> None:
    answer = api.post(f"/approvals/{second_person['id']}/approve", {"digest": second_person["digest"]})

    assert problem(answer) == (403, "forbidden", "operator requested this run and may not answer its gate.")
    assert "an approver who did not request it" in answer.json()["way_out"]


def several(*gates: dict[str, Any]) -> dict[str, Any]:
    return {"decisions": [{"id": one["id"], "digest": one["digest"], "answer": "approve"} for one in gates]}


def test_who_lacks_the_role_is_sent_for_the_one_that_this_gate_takes(
    api: Api, confirm: dict[str, Any], second_person: dict[str, Any]
) -> None:
    told = []
    for gate in (confirm, second_person):
        for verb in ("approve", "deny"):
            body = {"digest": gate["digest"], "reason": "x"}
            answer = api.post(f"/approvals/{gate['id']}/{verb}", body, role=Role.ADMIN)
            told.append((answer.status_code, answer.json()["detail"], answer.json()["way_out"].partition(". ")[0]))
    seen = api.get(f"/approvals/{second_person['id']}", role=Role.ADMIN).json()
    source = api.post(f"/approvals/{second_person['id']}/approve", {"digest": "0" * 64}, role=Role.SOURCE)

    at_once = [
        api.post("/approvals/decide", several(*gates), role=Role.ADMIN)
        for gates in ((confirm,), (confirm, second_person))
    ]

    refused = "admin's token has the role admin, which may not answer this gate."
    assert [(one.status_code, one.json()["detail"]) for one in at_once] == [(403, refused)] * 2
    ways = [one.json()["way_out"].partition(". ")[0] for one in at_once]
    assert ways == ["It takes the role operator or approver", "It takes the role approver"]
    assert told[:2] == [(403, refused, "It takes the role operator or approver")] * 2
    assert told[2:] == [(403, refused, "It takes the role approver")] * 2
    assert seen["may_not_because"].startswith(f"{refused} It takes the role approver.")
    assert problem(source) == (403, "forbidden", "source's token has the role source, which may not decide.")


class TestARequesterWithEveryRole:
    """One person, two tokens: the second one does not make a second person."""

    @pytest.fixture
    def tokens(self, world: World) -> tuple[str, str]:
        roles = frozenset({Role.OPERATOR, Role.APPROVER})
        first = create_token(world.service, "laptop", roles=roles, person="both", by="test")
        second = create_token(world.service, "phone", roles=frozenset({Role.APPROVER}), person="both", by="test")
        return first, second

    @pytest.fixture
    def gate(self, api: Api, world: World, tokens: tuple[str, str]) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {tokens[0]}"}
        api.post("/runs", {**CURE, "nodes": ["gpu-02"]}, role=None, headers=headers)
        world.settle()
        [gate] = api.get("/approvals").json()["items"]
        return dict(gate)

    @pytest.mark.parametrize("which", [0, 1])
    @pytest.mark.parametrize("verb", ["approve", "deny"])
    def test_he_is_refused_with_either_token(
        self, api: Api, tokens: tuple[str, str], gate: dict[str, Any], which: int, verb: str
    ) -> None:
        body = {"digest": gate["digest"], "reason": "x"}
        headers = {"Authorization": f"Bearer {tokens[which]}"}

        answer = api.post(f"/approvals/{gate['id']}/{verb}", body, role=None, headers=headers)

        assert problem(answer) == (403, "forbidden", "both requested this run and may not answer its gate.")

    def test_he_is_refused_when_he_answers_many(self, api: Api, tokens: tuple[str, str], gate: dict[str, Any]) -> None:
        body = {"decisions": [{"id": gate["id"], "digest": gate["digest"], "answer": "approve"}]}

        answer = api.post("/approvals/decide", body, role=None, headers={"Authorization": f"Bearer {tokens[1]}"})

        assert [one["status"] for one in answer.json()["items"]] == [403]
        assert api.get(f"/approvals/{gate['id']}").json()["state"] == "open"

    def test_he_is_refused_at_the_gate_of_a_retry_that_another_requested(
        self, api: Api, world: World, tokens: tuple[str, str], gate: dict[str, Any]
    ) -> None:
        api.post(f"/approvals/{gate['id']}/deny", {"digest": gate["digest"], "reason": "later"}, role=Role.APPROVER)
        world.settle()
        api.post(f"/runs/{gate['run_id']}/retry")
        world.settle()
        [again] = api.get("/approvals").json()["items"]

        answer = api.post(
            f"/approvals/{again['id']}/approve",
            {"digest": again["digest"]},
            role=None,
            headers={"Authorization": f"Bearer {tokens[1]}"},
        )

        assert again["run_id"] != gate["run_id"]
        assert problem(answer)[:2] == (403, "forbidden")

    def test_another_person_may(self, api: Api, gate: dict[str, Any]) -> None:
        answer = api.post(f"/approvals/{gate['id']}/approve", {"digest": gate["digest"]}, role=Role.APPROVER)

        assert (answer.status_code, answer.json()["state"]) == (200, "approved")


def test_s04_another_digest_than_the_one_shown_approves_nothing(api: Api, confirm: dict[str, Any]) -> None:
    answer = api.post(f"/approvals/{confirm['id']}/approve", {"digest": "0" * 64})

    assert problem(answer)[:2] == (409, "conflict")
    assert answer.json()["way_out"] == f"Look at the gate again; its digest is {confirm['digest']}."
    assert api.get(f"/approvals/{confirm['id']}").json()["state"] == "open"


@pytest.mark.parametrize("late", [timedelta(0), timedelta(seconds=1), timedelta(days=3)])
def test_an_answer_at_or_after_the_end_is_refused_and_nothing_was_run(
    api: Api, world: World, clock: SteppedClock, confirm: dict[str, Any], late: timedelta
) -> None:
    gate = world.service.store.read(lambda reader: reader.gate(confirm["id"]))
    clock.at = gate.expires_at + late

    answer = api.post(f"/approvals/{confirm['id']}/approve", {"digest": confirm["digest"]})
    shown = api.get(f"/approvals/{confirm['id']}").json()
    listed = api.get("/approvals").json()["items"]
    world.settle()

    assert problem(answer) == (
        409,
        "conflict",
        f"The gate expired at {gate.expires_at:%Y-%m-%d %H:%M:%S} UTC; nothing was run.",
    )
    assert answer.json()["way_out"] == f"Ask again: unstick retry {confirm['run_id']}"
    assert (shown["state"], shown["may_answer"], listed) == ("expired", False, [])
    assert api.get(f"/runs/{confirm['run_id']}").json()["state"] == "expired"
    assert api.get("/nodes/gpu-01").json()["occupied_by"] is None


def test_an_answer_a_second_before_the_end_counts(
    api: Api, world: World, clock: SteppedClock, confirm: dict[str, Any]
) -> None:
    gate = world.service.store.read(lambda reader: reader.gate(confirm["id"]))
    clock.at = gate.expires_at - timedelta(seconds=1)

    answer = api.post(f"/approvals/{confirm['id']}/approve", {"digest": confirm["digest"]})

    assert answer.json()["state"] == "approved"


def test_a_gate_is_answered_once(api: Api, confirm: dict[str, Any]) -> None:
    body = {"digest": confirm["digest"], "reason": "busy upload"}
    api.post(f"/approvals/{confirm['id']}/deny", body)

    again = api.post(f"/approvals/{confirm['id']}/approve", body, role=Role.APPROVER)

    assert problem(again) == (409, "conflict", "The gate is denied by operator: busy upload.")


@pytest.mark.parametrize("reason", [{}, {"reason": ""}, {"reason": "  "}])
def test_a_denial_needs_a_reason(api: Api, confirm: dict[str, Any], reason: dict[str, str]) -> None:
    answer = api.post(f"/approvals/{confirm['id']}/deny", {"digest": confirm["digest"], **reason})

    assert problem(answer)[:2] == (422, "invalid_input")
    assert api.get(f"/approvals/{confirm['id']}").json()["state"] == "open"


def test_a_denied_run_ends_denied(api: Api, world: World, confirm: dict[str, Any]) -> None:
    api.post(f"/approvals/{confirm['id']}/deny", {"digest": confirm["digest"], "reason": "busy upload"})
    world.settle()

    assert api.get(f"/runs/{confirm['run_id']}").json()["state"] == "denied"


def test_many_answers_are_each_given_by_themselves(
    api: Api, confirm: dict[str, Any], second_person: dict[str, Any]
) -> None:
    decisions = [
        {"id": confirm["id"], "digest": confirm["digest"], "answer": "approve"},
        {"id": confirm["id"], "digest": confirm["digest"], "answer": "approve"},
        {"id": "none", "digest": confirm["digest"], "answer": "approve"},
        {"id": second_person["id"], "digest": "0" * 64, "answer": "approve"},
        {"id": second_person["id"], "digest": second_person["digest"], "answer": "deny"},
        {"id": second_person["id"], "digest": second_person["digest"], "answer": "deny", "reason": "busy"},
    ]

    answer = api.post("/approvals/decide", {"decisions": decisions}, role=Role.APPROVER)

    items = answer.json()["items"]
    assert [(one["id"], one["status"]) for one in items] == [
        (confirm["id"], 200),
        (confirm["id"], 409),
        ("none", 404),
        (second_person["id"], 409),
        (second_person["id"], 422),
        (second_person["id"], 200),
    ]
    assert items[0]["gate"]["state"] == "approved"
    assert items[4]["problem"]["detail"] == "A denial needs a reason."
    assert items[5]["gate"]["state"] == "denied"


def test_decided_gates_are_listed_when_asked_for(api: Api, confirm: dict[str, Any]) -> None:
    api.post(f"/approvals/{confirm['id']}/approve", {"digest": confirm["digest"]})

    found = {
        state: [one["id"] for one in api.get("/approvals", state=state).json()["items"]]
        for state in ("open", "approved", "all")
    }

    assert found == {"open": [], "approved": [confirm["id"]], "all": [confirm["id"]]}
