"""Where a second person is asked, nobody approves what he asked for: every way to a gate, every way to answer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import httpx
import pytest

from service.app.decide import Decision, decide
from service.app.judge_alerts import judge_due
from service.app.pause_alerts import pause_alerts, resume_alerts
from service.app.receive_alerts import Incoming
from service.app.replay_alert import replay_alert
from service.app.resolve import resolve
from service.app.retry_run import retry_run
from service.app.sweep_request import run_sweep
from service.app.tokens import create_token, revoke_token
from service.domain.alert import Parsed
from service.domain.condition import compile_condition
from service.domain.errors import Conflict, Forbidden, InvalidInput
from service.domain.person import Person, Role
from service.domain.person_name import person_key
from service.domain.rule import RULE_NAMES
from service.domain.run import Gate, GateState, NodeRunState, ResolveAs, Run
from service.domain.script import Report, ReportState
from service.executors.scripted import Answer, exits
from service.web.app import create_app
from tests.app.alerting import alert, every, follow, receive, rule
from tests.app.conftest import Make, works
from tests.app.sweeping import last_run, schedule, sweep, turn
from tests.support.world import World
from tests.web.api import Api
from tests.web.browsing import Browser

EVERYTHING = frozenset({Role.OPERATOR, Role.APPROVER, Role.ADMIN})
ANN, BEA, CAT = (Person(name, EVERYTHING) for name in ("ann", "bea", "cat"))
LOST = Answer(Report(ReportState.UNKILLABLE, pid=7, wchan="request_wait_answer"))
ANSWERS = {**works("cure"), **works("strike"), "strike.run": [LOST, exits(0)]}
STRONGER = rule("ghost", runbook="stronger", waive=())


@dataclass(frozen=True)
class Way:
    """How a run comes to the gate of its acting step."""

    come: Callable[[World], object]
    #: Who has asked for it, so that none of them may answer.
    asked: tuple[Person, ...] = (ANN,)
    answers: Mapping[str, list[Answer]] | None = None


def requested(world: World) -> Run:
    return world.request("stronger", "gpu-01", person=ANN)


def retried_by_another(world: World) -> None:
    world.play(requested(world), by=CAT, deny=("strike",))
    first = world.service.store.read(lambda reader: reader.gates(None, cursor=None, limit=1)).items[0].run_id
    retry_run(world.service, first, person=BEA, from_step=None, failed_nodes=True, reason="again")


def resolved_as_retry_by_another(world: World) -> None:
    run = requested(world)
    assert world.play(run, by=CAT)[0].state is NodeRunState.STUCK
    resolve(world.service, run.id, node="gpu-01", resolve_as=ResolveAs.RETRY, reason="it is gone", person=BEA)


def resolved_as_retry_by_another_and_requested_again(world: World) -> None:
    run = requested(world)
    assert world.play(run, by=CAT)[0].state is NodeRunState.STUCK
    resolve(world.service, run.id, node="gpu-01", resolve_as=ResolveAs.RETRY, reason="it is gone", person=BEA)
    world.play(run, by=CAT, deny=("strike",))
    retry_run(world.service, run.id, person=ANN, from_step=None, failed_nodes=True, reason="again")


def escalated(world: World) -> None:
    run = world.request("cure", "gpu-01", person=ANN)
    world.settle()
    world.answer(next(gate for gate in world.open_gates() if gate.run_id == run.id), by=ANN)


def retried_by_another_and_escalated(world: World) -> None:
    run = world.request("cure", "gpu-01", person=ANN)
    world.play(run, by=ANN, deny=("cure",))
    retry_run(world.service, run.id, person=BEA, from_step=None, failed_nodes=True, reason="again")
    world.settle()
    [gate] = world.open_gates()
    world.answer(gate, by=BEA)


def resolved_as_retry_by_another_and_escalated(world: World) -> None:
    run = world.request("cure", "gpu-01", person=ANN)
    assert world.play(run, by=ANN)[0].state is NodeRunState.STUCK
    resolve(world.service, run.id, node="gpu-01", resolve_as=ResolveAs.RETRY, reason="it is gone", person=BEA)
    world.settle()
    [gate] = world.open_gates()
    world.answer(gate, by=ANN)


def taken_over(world: World) -> None:
    world.request("stronger", "gpu-01", person=CAT)
    world.settle()
    world.request("stronger", "gpu-01", person=ANN, take_over=True)


def fire(world: World) -> None:
    """Let the token of ann deliver an alert."""
    receive(world.service, Incoming("prom", b"{}", "ann"), Parsed((alert(world),)))
    judge_due(world.service)


def fired_by_his_token(world: World) -> None:
    fire(follow(world, STRONGER))


def fired_and_held_and_let_go_by_another(world: World) -> None:
    follow(world, STRONGER)
    pause_alerts(world.service, person=BEA, reason="a look first")
    fire(world)
    resume_alerts(world.service, person=BEA, reason="it is right")
    judge_due(world.service)


def fired_and_escalated(world: World) -> None:
    fire(follow(world, rule()))


def fired_and_retried_by_another(world: World) -> None:
    fired_by_his_token(world)
    world.settle()
    gate = world.open_gates()[0]
    world.answer(gate, by=CAT, approve=False, reason="later")
    world.settle()
    retry_run(world.service, gate.run_id, person=BEA, from_step=None, failed_nodes=True, reason="again")


def found_by_his_sweep(world: World) -> None:
    node = compile_condition("alert.labels.node", RULE_NAMES)
    when = "alert.labels.sweep == 'nightly'"
    promotes = rule("promote", when, runbook="stronger", node=node, sources=("sweep",), waive=())
    schedule(world, sweep(), rules=(promotes,))
    run_sweep(world.service, "nightly", person=ANN)
    turn(world)
    assert last_run(world).requested_by == "ann"


FAILS = {**ANSWERS, "cure.verify": [exits(77)]}
WAYS = {
    "requested": Way(requested),
    "retried by another": Way(retried_by_another, (ANN, BEA)),
    "resolved as retry by another": Way(resolved_as_retry_by_another, (ANN, BEA)),
    "resolved as retry by another, and requested again": Way(
        resolved_as_retry_by_another_and_requested_again, (ANN, BEA)
    ),
    "escalated": Way(escalated, answers=FAILS),
    "retried by another, and escalated": Way(retried_by_another_and_escalated, (ANN, BEA), FAILS),
    "resolved as retry by another, and escalated": Way(
        resolved_as_retry_by_another_and_escalated, (ANN, BEA), {**FAILS, "cure.run": [LOST, exits(0)]}
    ),
    "taken over": Way(taken_over),
    "fired by his source's token": Way(fired_by_his_token),
    "fired, held, and let go by another": Way(fired_and_held_and_let_go_by_another),
    "fired and escalated": Way(fired_and_escalated, answers=FAILS),
    "fired and retried by another": Way(fired_and_retried_by_another, (ANN, BEA)),
    "found by a sweep that he played": Way(found_by_his_sweep),
}


def at_the_gate(make: Make, way: Way) -> tuple[World, Gate]:
    world = make(way.answers or ANSWERS, scheduler="slurm")
    way.come(world)
    world.settle()
    [gate] = [one for one in world.open_gates() if one.step == "strike"]
    return world, gate


def stored(world: World, gate: Gate) -> Gate:
    return world.service.store.read(lambda reader: reader.gate(gate.id))


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_whoever_asked_for_it_is_refused_and_a_second_person_is_not(make: Make, way: Way) -> None:
    world, gate = at_the_gate(make, way)

    for person in way.asked:
        for approve in (True, False):
            with pytest.raises(Forbidden, match="may not answer"):
                world.answer(gate, by=person, approve=approve)

    assert stored(world, gate) == gate
    assert world.answer(gate, by=CAT).state is GateState.APPROVED


@dataclass
class Hands:
    """The application, and tokens of one person."""

    world: World
    api: Api
    gate: Gate

    def post(self, token: str, path: str, body: object) -> httpx.Response:
        """Send something with a token."""
        return self.api.post(path, body, role=None, headers={"Authorization": f"Bearer {token}"})

    def browser(self, token: str) -> Browser:
        """Sign in with a token."""
        browser = Browser(self.api)
        assert browser.post("/sign-in", {"token": token}).status_code == 303
        return browser


@pytest.fixture
def hands(make: Make) -> Hands:
    """Give ann's run at its gate, and the application around it."""
    world, gate = at_the_gate(make, WAYS["requested"])
    return Hands(world, Api(create_app(world.service), {}), gate)


@pytest.fixture
def tokens(hands: Hands) -> list[str]:
    """Give the token by which ann works, and another one of hers."""
    service = hands.world.service
    return [create_token(service, name, roles=EVERYTHING, person="ann", by="test") for name in ("desk", "phone")]


def by_rest(hands: Hands, token: str, verb: str) -> httpx.Response:
    return hands.post(token, f"/approvals/{hands.gate.id}/{verb}", {"digest": hands.gate.digest, "reason": "x"})


def by_rest_of_many(hands: Hands, token: str, verb: str) -> httpx.Response:
    one = {"id": hands.gate.id, "digest": hands.gate.digest, "answer": verb, "reason": "x"}
    return hands.post(token, "/approvals/decide", {"decisions": [one, one]})


def by_the_page(hands: Hands, token: str, verb: str) -> httpx.Response:
    fields = {"answer": verb, "digest": hands.gate.digest, "reason": "x", "seen": "yes"}
    return hands.browser(token).send(f"/gates/{hands.gate.id}/answer", **fields)


def by_the_link_alone(hands: Hands, token: str, verb: str) -> httpx.Response:
    return hands.browser(token).get(f"/gates/{hands.gate.id}?answer={verb}&digest={hands.gate.digest}&seen=yes")


@pytest.mark.parametrize("verb", ["approve", "deny"])
@pytest.mark.parametrize("answer", [by_rest, by_rest_of_many, by_the_page, by_the_link_alone])
def test_no_door_lets_him_answer_with_any_of_his_tokens(
    hands: Hands, tokens: list[str], answer: Callable[[Hands, str, str], httpx.Response], verb: str
) -> None:
    told = [answer(hands, token, verb).text for token in tokens]

    assert stored(hands.world, hands.gate) == hands.gate
    assert all("ann requested this run and may not answer its gate." in text for text in told)


@pytest.mark.parametrize("name", ["ANN", "Ann", "\uff41\uff4e\uff4e", "an\u200bn", " ann ", "a\u00adnn", "ann\u3164"])
def test_another_spelling_of_his_name_is_no_second_person(hands: Hands, name: str) -> None:
    create_token(hands.world.service, "first", roles=EVERYTHING, person="ann", by="test")

    with pytest.raises(Forbidden, match="requested this run"):
        hands.world.answer(hands.gate, by=Person(name, EVERYTHING))
    with pytest.raises(Conflict, match="written otherwise; both count as one person"):
        create_token(hands.world.service, "other", roles=EVERYTHING, person=name, by="test")


@pytest.mark.parametrize("name", ["unstick", "group:sre", "cli:root", "\u0430nn", "ann\x1b[2J"])
def test_no_token_is_made_for_what_is_no_person(hands: Hands, name: str) -> None:
    with pytest.raises(InvalidInput, match="The name of the person "):
        create_token(hands.world.service, "other", roles=EVERYTHING, person=name, by="test")


def test_names_that_are_told_apart_are_two_persons() -> None:
    assert len({person_key(name) for name in ("ann", "anne", "a nn", "änn", "ann@example.org")}) == 5


def test_a_right_that_was_taken_while_the_gate_was_open_answers_nothing(hands: Hands) -> None:
    service = hands.world.service
    token = create_token(service, "cat", roles=frozenset({Role.APPROVER}), person="cat", by="test")
    browser = hands.browser(token)
    assert "/answer" in browser.get(f"/gates/{hands.gate.id}").text
    revoke_token(service, "cat", by="test")
    weaker = create_token(service, "cat-2", roles=frozenset({Role.VIEWER}), person="cat", by="test")

    codes = [by_rest(hands, one, "approve").status_code for one in (token, weaker)]
    on_page = browser.post(f"/gates/{hands.gate.id}/answer", {"answer": "approve", "digest": hands.gate.digest})

    assert (codes, on_page.status_code, stored(hands.world, hands.gate)) == ([401, 403], 401, hands.gate)


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.ADMIN, Role.VIEWER, Role.SOURCE, Role.BREAK_GLASS])
def test_a_role_that_is_not_for_it_answers_no_second_person_gate(hands: Hands, role: Role) -> None:
    with pytest.raises(Forbidden):
        hands.world.answer(hands.gate, by=Person("dan", frozenset({role})))

    assert stored(hands.world, hands.gate) == hands.gate


def test_an_alert_that_is_played_again_by_hand_opens_no_gate(make: Make) -> None:
    world = make(ANSWERS)
    fired_by_his_token(world)
    again = replay_alert(world.service, every(world)[0].id, person=BEA)
    world.settle()

    assert (again.dry_run, [gate.run_id == again.id for gate in world.open_gates()]) == (True, [False])


def test_a_rule_waives_no_gate_that_is_never_waived_nor_that_of_a_retry_or_an_escalation(make: Make) -> None:
    world = make(FAILS, scheduler="slurm")
    fire(follow(world, rule()))
    world.settle()
    waived = world.service.store.read(lambda reader: reader.gates(GateState.WAIVED, cursor=None, limit=9)).items

    assert [(gate.step, gate.decided_by) for gate in waived] == [("cure", None)]
    assert [(gate.step, gate.state) for gate in world.open_gates()] == [("strike", GateState.OPEN)]
    with pytest.raises(Conflict, match="never be waived"):
        world.request("stronger", "gpu-01", person=ANN, waived=("strike",))
    again = retry_run(world.service, waived[0].run_id, person=BEA, from_step=None, failed_nodes=True, reason="again")
    assert again.waived == ()


def test_a_stuck_run_that_goes_on_at_verify_passes_no_gate(make: Make) -> None:
    world = make(ANSWERS)
    run = requested(world)
    world.play(run, by=CAT)
    resolve(world.service, run.id, node="gpu-01", resolve_as=ResolveAs.CHANGED, reason="it did", person=ANN)
    world.settle()

    acted = [order.step for order in world.scripted.orders if order.acting]
    assert (world.open_gates(), acted) == ([], ["strike"])


def test_what_was_decided_for_another_gate_is_not_for_this_one(make: Make) -> None:
    world, gate = at_the_gate(make, replace(WAYS["requested"]))
    world.answer(gate, by=CAT, approve=False, reason="later")
    world.settle()
    retry_run(world.service, gate.run_id, person=ANN, from_step=None, failed_nodes=True, reason="again")
    world.settle()
    again = world.open_gates()[0]

    with pytest.raises(Conflict, match="denied by cat"):
        decide(world.service, Decision(gate.id, again.digest, approve=True), person=CAT)

    assert stored(world, again).state is GateState.OPEN
