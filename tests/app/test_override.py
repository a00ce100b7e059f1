"""Breaking glass is no approval: it takes its role, a reason and the policy, shows as what it is, and all are told."""

from dataclasses import dataclass, replace

import pytest

from service.app.cancel_run import cancel_run
from service.app.override import Override, override
from service.app.timeline import run_entries
from service.domain.errors import ConfigInvalid, Conflict, Forbidden, InvalidInput
from service.domain.notice import NoticeKind, NoticeRule
from service.domain.person import Person, Role
from service.domain.policy import Policy
from service.domain.run import Gate, GateState, NodeRunState, Run, Verdict
from tests.app.alerting import Fixed
from tests.app.conftest import Make, works
from tests.support.notices import HOOK, ONCALL, config, follow, listen, tell
from tests.support.world import OPERATOR, SECOND, World

BREAKER = Person("operator", frozenset({Role.OPERATOR, Role.BREAK_GLASS}))
REASON = "the cluster is down and nobody else answers"


@dataclass
class Unreadable:
    """A policy whose file was never good."""

    def current(self) -> Policy:
        """Refuse."""
        raise ConfigInvalid("policy.yaml:1: The file is not a mapping.", "Mend it.")


def allowing(world: World) -> World:
    world.service = replace(world.service, policy=Fixed(Policy(break_glass=True)))
    return world


def opened(world: World, runbook: str = "stronger") -> tuple[Run, Gate]:
    """Request a run by the very person who will break glass, and return it with its open gate."""
    run = world.request(runbook, "gpu-01", person=BREAKER)
    world.settle()
    return run, world.open_gates()[0]


def broken(world: World, gate: Gate, *, by: Person = BREAKER, digest: str = "", reason: str = REASON) -> Gate:
    return override(world.service, Override(gate.id, digest or gate.digest, reason), person=by)


def stored(world: World, gate: Gate) -> Gate:
    return world.service.store.read(lambda reader: reader.gate(gate.id))


def test_the_requester_overrides_his_own_run_and_it_is_shown_as_no_approval(make: Make) -> None:
    world = allowing(make(works("strike")))
    run, gate = opened(world)

    answered = broken(world, gate)
    world.settle()

    node_run = world.node_runs(run)[0]
    assert (answered.state, answered.decided_by, answered.reason) == (GateState.OVERRIDDEN, "operator", REASON)
    assert stored(world, gate) == answered
    assert (node_run.state, node_run.verdict) == (NodeRunState.SUCCEEDED, Verdict.CURED)
    assert "gate.overridden" in world.facts(run)
    assert "gate.approved" not in world.facts(run)
    told = [line.text for line in run_entries(world.service, run.id) if line.action == "gate.overridden"]
    assert told == [f"Gate overridden, without the approval that it asks for: {REASON}"]
    assert world.chain_holds()


@pytest.mark.parametrize(
    ("policy", "by", "reason"),
    [
        (Fixed(Policy()), BREAKER, "the policy does not say `break_glass: true`"),
        (Unreadable(), BREAKER, "is not known: policy.yaml:1"),
        (Fixed(Policy(break_glass=True)), OPERATOR, "which may not override"),
        (Fixed(Policy(break_glass=True)), SECOND, "which may not override"),
        (Fixed(Policy(break_glass=True)), Person("root", frozenset({Role.ADMIN})), "which may not override"),
    ],
    ids=["off", "unreadable", "operator", "approver", "admin"],
)
def test_it_takes_the_role_and_the_policy(make: Make, policy: object, by: Person, reason: str) -> None:
    world = make(works("strike"))
    run, gate = opened(world)
    world.service = replace(world.service, policy=policy)  # type: ignore[arg-type]

    with pytest.raises(Forbidden, match=reason):
        broken(world, gate, by=by)

    assert stored(world, gate) == gate
    assert "gate.overridden" not in world.facts(run)


def test_who_may_break_glass_may_not_approve_by_it(make: Make) -> None:
    world = allowing(make(works("cure")))
    _, gate = opened(world, "cure")

    with pytest.raises(Forbidden, match="may not answer this gate"):
        world.answer(gate, by=Person("breaker", frozenset({Role.BREAK_GLASS})))


@pytest.mark.parametrize("reason", ["", " \n"])
def test_it_takes_a_reason(make: Make, reason: str) -> None:
    world = allowing(make(works("strike")))
    _, gate = opened(world)

    with pytest.raises(InvalidInput, match="An override needs a reason"):
        broken(world, gate, reason=reason)

    assert stored(world, gate) == gate


def test_only_what_was_shown_is_overridden(make: Make) -> None:
    world = allowing(make(works("strike")))
    _, gate = opened(world)

    with pytest.raises(Conflict, match="not that of this gate"):
        broken(world, gate, digest="0" * 64)

    assert stored(world, gate) == gate


def test_a_gate_that_has_expired_is_not_overridden_and_nothing_runs(make: Make) -> None:
    world = allowing(make(works("strike")))
    run, gate = opened(world)
    world.move_to(gate.expires_at)

    with pytest.raises(Conflict, match="expired"):
        broken(world, gate)
    world.settle()

    assert world.node_runs(run)[0].state is NodeRunState.EXPIRED
    assert [order for order in world.scripted.orders if order.acting] == []


@pytest.mark.parametrize("answer", ["approved", "denied", "cancelled", "overridden"])
def test_a_gate_that_is_decided_is_not_overridden(make: Make, answer: str) -> None:
    world = allowing(make(works("strike")))
    run, gate = opened(world)
    match answer:
        case "approved" | "denied":
            world.answer(gate, approve=answer == "approved")
        case "overridden":
            broken(world, gate)
        case _:
            cancel_run(world.service, run.id, person=OPERATOR)
            world.settle()
    before = stored(world, gate)

    with pytest.raises(Conflict, match="The gate is"):
        broken(world, gate)

    assert stored(world, gate) == before


def test_an_override_is_for_one_boot_and_one_use_like_an_approval(make: Make) -> None:
    world = allowing(make(works("strike")))
    run, gate = opened(world)
    broken(world, gate)
    world.move_to(gate.expires_at)

    world.settle()

    again = world.open_gates()[0]
    assert (stored(world, gate).state, again.run_id, again.round) == (GateState.VOID, run.id, 2)
    assert [order for order in world.scripted.orders if order.acting] == []


def test_everybody_is_told_whatever_the_rules_say(make: Make) -> None:
    world = allowing(make(works("strike")))
    nothing_of_it = NoticeRule(("oncall",), frozenset({NoticeKind.PAUSE}))
    follower, kept = listen(world, config(nothing_of_it, receivers=(ONCALL, HOOK)))
    run, gate = opened(world)

    broken(world, gate)
    follow(follower)
    tell(world)

    told = {name: outgoing.message for name, outgoing in kept.told}
    assert set(told) == {"oncall", "hook"}
    assert told["oncall"].title == "GATE OVERRIDDEN by operator: stronger, step strike, on gpu-01"
    assert told["oncall"].text.splitlines()[1:] == [
        f"Reason: {REASON}",
        "It acts without the approval of a second person, on 1 target:",
        "  | it",
        "Why it runs: operator asked for it",
        f"Look at it: unstick show {run.id}",
        f"To withdraw what is left of it: unstick cancel {run.id}",
    ]


def test_no_way_to_withdraw_is_told_of_a_run_that_has_ended_meanwhile(make: Make) -> None:
    world = allowing(make(works("strike")))
    follower, kept = listen(world, config(NoticeRule(("oncall",), frozenset({NoticeKind.PAUSE})), receivers=(ONCALL,)))
    run, gate = opened(world)
    broken(world, gate)
    world.settle()

    follow(follower)
    tell(world)

    [message] = [outgoing.message for _, outgoing in kept.told]
    assert message.title == "GATE OVERRIDDEN by operator: stronger, step strike, on gpu-01"
    assert message.text.splitlines()[-1] == f"Look at it: unstick show {run.id}"
