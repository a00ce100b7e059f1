"""Gates under everything that may happen to them, in any order: a state machine on the real store, for hypothesis.

Persons request, answer, override, cancel; the clock goes on and is set back; a runbook is edited, a token revoked, the
service killed while it drives, and started anew. After each rule what was appended to the audit is looked at, and each
order that acts is looked at in the moment in which it is sent.
"""

import shutil
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from service.app.cancel_run import cancel_run
from service.app.decide import Decision, decide
from service.app.drive import drive
from service.app.load_runbooks import RunbookFolder, parse_runbook
from service.app.override import Override, override
from service.app.resolve import resolve
from service.app.retry_run import retry_run
from service.app.tokens import authenticate, create_token, revoke_token
from service.domain.audit import FIRST_HASH, AuditEvent
from service.domain.errors import Unauthenticated, UnstickError
from service.domain.person import Person, Role
from service.domain.plan import gate_digest
from service.domain.policy import Policy
from service.domain.run import Gate, GateState, NodeRun, ResolveAs, Run
from service.domain.runbook import ApprovalKind
from service.domain.script import OutputChunk, Report, ReportState, ScriptKind, ScriptOrder
from service.executors.scripted import Answer, Place, ScriptedExecutor, exits
from service.store.sql_store import SqlStore
from tests.support.world import OneExecutor, SteppedClock, World, local_nodes

SOURCES = Path(__file__).parents[1] / "app" / "runbooks"
NODES = ("gpu-01", "gpu-02")
RUNBOOKS = ("cure", "stronger", "undoing")
_BOTH = frozenset({Role.OPERATOR, Role.APPROVER})
PERSONS = {
    "ann": frozenset({*_BOTH, Role.BREAK_GLASS}),
    "bea": _BOTH,
    "cat": frozenset({Role.APPROVER}),
    "dan": frozenset({Role.OPERATOR}),
}
#: What an answer to a gate may be; each gate has at most one of them.
DECISIONS = frozenset({"gate.approved", "gate.denied", "gate.overridden", "gate.waived", "gate.expired"})
_LOST = Answer(Report(ReportState.UNKILLABLE, pid=7, wchan="request_wait_answer"))


def _table() -> dict[Place, list[Answer]]:
    answers: dict[Place, list[Answer]] = {}
    steps = ("cure", "strike", "take-out", "repair", "give-back")
    for node in NODES:
        for step in steps:
            answers[node, step, ScriptKind.CHECK] = [exits(0, targets=["it"])]
            first = [_LOST] if step == "strike" else []
            answers[node, step, ScriptKind.RUN] = [*first, exits(0), exits(0), _LOST, exits(1)] * 50
            answers[node, step, ScriptKind.VERIFY] = [exits(0), exits(77), exits(0)] * 50
        answers[node, "give-back", ScriptKind.RUN] = [exits(0)]
        answers[node, "give-back", ScriptKind.VERIFY] = [exits(0)]
    return answers


@dataclass
class Watched:
    """The nodes, and a look at the record in the moment in which something that acts is sent."""

    inner: ScriptedExecutor
    look: Callable[[ScriptOrder], None]

    def start(self, order: ScriptOrder, on_output: Callable[[OutputChunk], None]) -> Report:
        """Look, then answer."""
        if order.acting:
            self.look(order)
        return self.inner.start(order, on_output)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@dataclass
class SomePolicy:
    """A policy that a rule changes."""

    value: Policy = field(default_factory=Policy)

    def current(self) -> Policy:
        """Return it."""
        return self.value


class GateMachine(RuleBasedStateMachine):
    """One service, its persons and its nodes."""

    #: Rules that were played, and what came of them, over all examples.
    played: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        """Make a service with a database of its own."""
        super().__init__()
        self.folder = Path(mkdtemp(prefix="unstick-gates-"))
        self.runbooks = self.folder / "runbooks"
        shutil.copytree(SOURCES, self.runbooks)
        self.policy = SomePolicy(Policy(break_glass=True))
        self.nodes = ScriptedExecutor(_table())
        self.world = World.build(
            f"sqlite:///{self.folder}/unstick.db",
            Watched(self.nodes, self.saw_act),
            inventory=local_nodes(*NODES),
            runbooks=self.runbooks,
        )
        self.world.service = replace(self.world.service, policy=self.policy)
        self.seen, self.head = 0, FIRST_HASH
        self.decided: dict[str, list[str]] = defaultdict(list)
        self.tokens: dict[str, str] = {}
        self.owner, self.edits = 1, 0

    @property
    def clock(self) -> SteppedClock:
        """Return the clock."""
        assert isinstance(self.world.clock, SteppedClock)
        return self.world.clock

    @initialize()
    def persons(self) -> None:
        """Give each person a token."""
        for name, roles in PERSONS.items():
            self.tokens[name] = create_token(self.world.service, name, roles=roles, person=name, by="test")

    def does(self, what: str, name: str, act: Callable[[Person], object]) -> None:
        """Let a person do something by his token, and note whether it was refused; without one he gets another."""
        try:
            act(authenticate(self.world.service, self.tokens[name]))
        except Unauthenticated:
            self.played[f"{what} refused: Unauthenticated"] += 1
            self.new_token(name)
        except UnstickError as refusal:
            self.played[f"{what} refused: {type(refusal).__name__}"] += 1
        else:
            self.played[what] += 1

    def pick(self, number: int) -> Gate | None:
        """Return one of the newest gates: mostly one that is open, for which a run is requested, else any."""
        state = GateState.OPEN if number < 4 else None
        gates = self.gates(state)
        if not gates:
            self.request(("ann", "bea", "dan")[number % 3], RUNBOOKS[number % 3], NODES[number % 2], True)
            gates = self.gates(state)
        return gates[number % len(gates)] if gates else None

    def gates(self, state: GateState | None) -> tuple[Gate, ...]:
        """Return the newest gates."""
        return tuple(self.world.service.store.read(lambda reader: reader.gates(state, cursor=None, limit=6)).items)

    @rule(
        name=st.sampled_from(["ann", "bea", "dan", "cat"]),
        runbook=st.sampled_from(RUNBOOKS),
        node=st.sampled_from(NODES),
        at_once=st.sampled_from([True, True, True, False]),
    )
    def request(self, name: str, runbook: str, node: str, at_once: bool) -> None:
        """Request a run, and most often let the engine come to its gate."""
        self.does("request", name, lambda person: self.world.request(runbook, node, person=person))
        if at_once:
            self.work()

    @rule(
        name=st.sampled_from(sorted(PERSONS)),
        number=st.integers(0, 5),
        approve=st.sampled_from([True, True, False]),
        right=st.booleans(),
    )
    def answer(self, name: str, number: int, approve: bool, right: bool) -> None:
        """Answer some gate, with its digest or, more seldom, with another."""
        gate = self.pick(number)
        if gate is None:
            return
        digest = gate.digest if right or number else "0" * 64
        decision = Decision(gate.id, digest, approve, "seen")
        what = "approve" if approve else "deny"
        self.does(what, name, lambda person: decide(self.world.service, decision, person=person))
        self.work()

    @rule(name=st.sampled_from(["ann", "bea"]), number=st.integers(0, 5))
    def break_glass(self, name: str, number: int) -> None:
        """Override some gate."""
        gate = self.pick(number)
        if gate is None:
            return
        wanted = Override(gate.id, gate.digest, "nobody answers")
        self.does("override", name, lambda person: override(self.world.service, wanted, person=person))
        self.work()

    @rule(allows=st.sampled_from([True, True, False]))
    def change_policy(self, allows: bool) -> None:
        """Let the policy allow overrides, or not."""
        self.policy.value = Policy(break_glass=allows)

    @rule(name=st.sampled_from(sorted(PERSONS)), number=st.integers(0, 5))
    def cancel(self, name: str, number: int) -> None:
        """Cancel the run of some gate."""
        gate = self.pick(number)
        if gate is not None:
            self.does("cancel", name, lambda person: cancel_run(self.world.service, gate.run_id, person=person))

    @rule(name=st.sampled_from(sorted(PERSONS)), number=st.integers(0, 5))
    def retry(self, name: str, number: int) -> None:
        """Retry the run of some gate."""
        gate = self.pick(number)
        if gate is not None:
            self.does(
                "retry",
                name,
                lambda person: retry_run(
                    self.world.service, gate.run_id, person=person, from_step=None, failed_nodes=False, reason=""
                ),
            )

    @rule(name=st.sampled_from(["ann", "bea"]), number=st.integers(4, 9), how=st.sampled_from(list(ResolveAs)))
    def settle_stuck(self, name: str, number: int, how: ResolveAs) -> None:
        """Resolve the run of some gate, if it is stuck."""
        gate = self.pick(number)
        if gate is None:
            return
        run_id, node = gate.run_id, gate.node
        self.does(
            f"resolve as {how}",
            name,
            lambda person: resolve(
                self.world.service, run_id, node=node, resolve_as=how, reason="looked", person=person
            ),
        )

    @rule(minutes=st.sampled_from([1, 1, 20, 61, -10, -120]))
    def pass_time(self, minutes: int) -> None:
        """Let time pass, or set the clock back."""
        self.clock.at += timedelta(minutes=minutes)

    @rule(runbook=st.sampled_from(RUNBOOKS), approval=st.sampled_from(["none", "confirm", "second_person"]))
    def edit(self, runbook: str, approval: str) -> None:
        """Edit a runbook: who must agree to what, and what it says of itself."""
        self.edits += 1
        file = self.runbooks / f"{runbook}.yaml"
        lines = (SOURCES / file.name).read_text().splitlines()
        changed = [f"    approval: {approval}" if line.startswith("    approval:") else line for line in lines]
        kept = [line for line in changed if approval != "none" or not line.startswith("    waivable:")]
        file.write_text("\n".join([*kept, f"# edit {self.edits}"]) + "\n")

    @rule(name=st.sampled_from(sorted(PERSONS)))
    def revoke(self, name: str) -> None:
        """Revoke the token of a person; what he does next is refused, and then he gets another."""
        service = self.world.service
        tokens = service.store.read(lambda reader: reader.tokens())
        valid = [one for one in tokens if one.person == name and one.revoked_at is None]
        for token in valid:
            self.played["revoke"] += 1
            revoke_token(service, token.id, by="test")

    def new_token(self, name: str) -> None:
        """Give a person another token."""
        service = self.world.service
        number = len(service.store.read(lambda reader: reader.tokens()))
        made = f"{name}-{number}"
        self.tokens[name] = create_token(service, made, roles=PERSONS[name], person=name, by="test")

    @rule(steps=st.integers(1, 6))
    def die_while_driving(self, steps: int) -> None:
        """Drive a due node run for some steps, and die: it stays claimed by an owner that is gone."""
        store, now = self.world.service.store, self.clock.now()
        for node_run in store.read(lambda reader: reader.due(now, limit=1)):
            claimed = store.write(_claimer(node_run, owner=f"owner-{self.owner}", now=now))
            if claimed is not None:
                drive(self.world.service, claimed, keep_on=_for(steps))
                self.played["die"] += 1
        self.restart()

    @rule(works=st.sampled_from([True, True, True, False]))
    def restart_or_work(self, works: bool) -> None:
        """Start the service anew, or, more often, let it work."""
        if works:
            self.work()
        else:
            self.restart()

    def restart(self) -> None:
        """Start the service anew on the same record, with another owner, and take over what was claimed."""
        service = self.world.service
        service.store.close()
        self.owner += 1
        store = SqlStore.open(f"sqlite:///{self.folder}/unstick.db", self.clock)
        self.world.service = replace(
            service,
            store=store,
            runbooks=RunbookFolder(self.runbooks),
            executors=OneExecutor(Watched(self.nodes, self.saw_act)),
        )
        for node_run in store.read(lambda reader: reader.owned_by_others("nobody")):
            taken = store.write(_taker(node_run, owner=f"owner-{self.owner}"))
            if taken is not None:
                drive(self.world.service, taken)
        self.played["restart"] += 1

    @rule()
    def work(self) -> None:
        """Let the engine do what is due, over the waits of a few seconds between two looks."""
        self.clock.at += timedelta(seconds=5)
        for _ in range(20):
            if not self.world.step():
                return

    def saw_act(self, order: ScriptOrder) -> None:
        """Assert that what acts is let run by a live answer to exactly that, or asks for none."""
        store = self.world.service.store
        attempt = store.read(lambda reader: reader.attempt(order.attempt_id))
        history = store.read(lambda reader: reader.history(attempt.node_run_id))
        run = store.read(lambda reader: reader.run(order.run_id))
        source = store.read(lambda reader: reader.runbook_source(run.id))
        step = parse_runbook(source, f"{source.name}.yaml").step(order.step)
        self.played["acted"] += 1
        if step.approval is ApprovalKind.NONE:
            return
        digest = gate_digest(
            plan_digest=run.digest,
            node=history.node_run.node,
            step=order.step,
            boot_id=order.boot_id or "",
            targets=order.targets,
        )
        [gate] = [one for one in history.gates if (one.step, one.round) == (order.step, attempt.round)]
        assert (gate.digest, gate.state.lets_run) == (digest, True), (order, gate)
        assert order.sent_at < gate.expires_at, (order, gate)
        assert order.not_after <= gate.expires_at, (order, gate)
        self.played[f"acted by a gate {gate.state}"] += 1

    @invariant()
    def the_record_holds(self) -> None:
        """Look at what was appended since the last look."""
        self.played["rules"] += 1
        store = self.world.service.store
        while events := store.read(lambda reader: reader.audit_after(self.seen, run_id=None, limit=500)):
            for event in events:
                assert (event.seq, event.previous_hash) == (self.seen + 1, self.head)
                self.seen, self.head = event.seq, event.hash
                if event.fact.action.startswith("gate."):
                    self._gate(event)

    def _gate(self, event: AuditEvent) -> None:
        action, fact = event.fact.action, event.fact
        past = self.decided[fact.about]
        past.append(action)
        assert sum(one in DECISIONS for one in past) <= 1, (fact, past)
        assert past.count("gate.void") <= 1, (fact, past)
        assert past[0] in ("gate.opened", "gate.waived"), (fact, past)
        if action in ("gate.approved", "gate.denied"):
            store = self.world.service.store
            run, gate = store.read(lambda reader: (reader.run(fact.run_id), reader.gate(str(fact.body["gate"]))))
            self._answered_by_another(run, gate, fact.person)

    def _answered_by_another(self, run: Run, gate: Gate, person: str) -> None:
        if gate.kind is not ApprovalKind.SECOND_PERSON:
            return
        history = self.world.service.store.read(lambda reader: reader.history(gate.node_run_id))
        asked_again = {one.by for one in history.resolutions if one.resolve_as is ResolveAs.RETRY}
        assert person not in {*run.requesters, *asked_again}, (gate, person)
        assert Role.APPROVER in PERSONS[person]

    def teardown(self) -> None:
        """Assert that the whole chain holds, the rows say what it says, and nothing is done twice; then clean up."""
        try:
            ids = Counter(order.attempt_id for order in self.nodes.orders)
            assert not [one for one, number in ids.items() if number > 1]
            assert self.world.chain_holds()
        finally:
            self.world.close()
            shutil.rmtree(self.folder)


def _for(steps: int) -> Callable[[], bool]:
    left = iter(range(steps))
    return lambda: next(left, None) is not None


def _claimer(node_run: NodeRun, *, owner: str, now: Any) -> Callable[[Any], NodeRun | None]:
    return lambda transaction: transaction.claim(node_run.id, owner=owner, now=now)


def _taker(node_run: NodeRun, *, owner: str) -> Callable[[Any], NodeRun | None]:
    return lambda transaction: transaction.take_from(node_run, owner=owner)
