"""Plays `judge` to its end with scripted answers, without a store or a clock."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from service.domain.action import (
    CloseGate,
    Dispatch,
    Ended,
    GiveUp,
    Judgement,
    OpenGate,
    Settle,
    Stop,
    WaitForDecision,
    WaitUntil,
)
from service.domain.next_action import judge
from service.domain.plan import gate_digest
from service.domain.run import (
    Attempt,
    AttemptState,
    Gate,
    GateState,
    History,
    NodeRun,
    NodeRunState,
    Resolution,
    ResolveAs,
    Run,
    Trigger,
    TriggerKind,
)
from service.domain.runbook import Limits, Runbook, Step
from service.domain.script import NotStarted

START = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)
FIRST_BOOT = "11111111-1111-4111-8111-111111111111"


@dataclass(frozen=True)
class Answer:
    """How one attempt ends."""

    state: AttemptState = AttemptState.FINISHED
    exit_code: int | None = None
    targets: tuple[str, ...] = ()
    not_started: NotStarted | None = None
    ended_by_us: bool = False
    signal: int | None = None
    boot_id: str | None = FIRST_BOOT
    takes: timedelta = timedelta(seconds=1)
    stdout_bytes: int = 10


def exits(code: int, *targets: str) -> Answer:
    """Return the answer of a script that ended with this code."""
    return Answer(exit_code=code, targets=targets)


def refused(why: NotStarted, boot_id: str = FIRST_BOOT) -> Answer:
    """Return the answer of a script that was not started."""
    return Answer(AttemptState.NOT_STARTED, not_started=why, boot_id=boot_id)


UNREACHABLE = refused(NotStarted.UNREACHABLE)
HUNG = Answer(exit_code=None, signal=15, ended_by_us=True)
UNKILLABLE = Answer(AttemptState.UNKILLABLE)
REBOOTED = Answer(AttemptState.REBOOTED, boot_id="22222222-2222-4222-8222-222222222222")
UNSETTLED = Answer(AttemptState.UNKNOWN)


@dataclass
class Player:
    """One node run, played step by step."""

    steps: Sequence[Step]
    #: Answers of each script, `step.kind`, in order; the last one is given again.
    answers: Mapping[str, Sequence[Answer]]
    #: What persons answer at the gates of a step, in order; APPROVED where nothing is said.
    decisions: Mapping[str, Sequence[GateState]] = field(default_factory=dict)
    dry_run: bool = False
    waived: tuple[str, ...] = ()
    from_step: str | None = None
    now: datetime = START
    sent: list[str] = field(default_factory=list)
    history: History = field(init=False)

    def __post_init__(self) -> None:
        """Begin with a node run that has been started."""
        node_run = NodeRun("nr", "r", "gpu-01", NodeRunState.RUNNING, 0, self.dry_run, True, "cure", START)
        self.history = History(node_run)
        self._answers = {name: _repeat_last(answers) for name, answers in self.answers.items()}
        self._decisions = {name: iter(answers) for name, answers in self.decisions.items()}

    @property
    def runbook(self) -> Runbook:
        """The runbook of these steps."""
        return Runbook("cure", "Cure", "gpu-oncall", "A cure.", tuple(self.steps), "0" * 64, limits=Limits())

    @property
    def run(self) -> Run:
        """The run of this node run."""
        trigger = Trigger(TriggerKind.PERSON)
        return Run(
            "r", "cure", "d", self.dry_run, "operator", ("operator",), trigger, {}, START,
            waived=self.waived, from_step=self.from_step, retry_of="r0" if self.from_step else None,
        )  # fmt: skip

    def judge(self) -> Judgement:
        """Return the judgement of this moment."""
        return judge(self.runbook, self.run, history=self.history, now=self.now)

    def play(self) -> Judgement:
        """Go on until it has ended, is stuck, or waits for a person who says nothing."""
        for _ in range(500):
            judgement = self.judge()
            if not self._do(judgement):
                return judgement
        raise AssertionError(f"It does not end: {judgement.action}")

    def resolve(self, resolve_as: ResolveAs) -> None:
        """Resolve the stuck node run."""
        last = max(attempt.number for attempt in self.history.attempts)
        resolution = Resolution(f"res{last}", "nr", resolve_as, "second", "seen", self.now, last)
        self.history = replace(self.history, resolutions=(*self.history.resolutions, resolution))

    def cancel(self) -> None:
        """Ask the node run to end."""
        node_run = replace(self.history.node_run, cancel_requested_by="operator", cancel_reason="enough")
        self.history = replace(self.history, node_run=node_run)

    def _do(self, judgement: Judgement) -> bool:
        action = judgement.action
        match action:
            case Dispatch():
                self._dispatch(action)
            case OpenGate():
                return self._open(action)
            case CloseGate():
                gates = (
                    replace(gate, state=action.state, reason=action.reason) if gate.id == action.gate_id else gate
                    for gate in self.history.gates
                )
                self.history = replace(self.history, gates=tuple(gates))
            case WaitUntil():
                self.now = action.at
            case Settle() | Stop() | GiveUp():
                self._settle(action)
            case WaitForDecision() | Ended():
                return False
        return True

    def _dispatch(self, action: Dispatch) -> None:
        name = f"{action.step}.{action.kind}"
        self.sent.append(name)
        answer = next(self._answers[name])
        intended = self.now
        self.now += answer.takes
        attempt = Attempt(
            id=f"a{len(self.history.attempts) + 1}",
            node_run_id="nr",
            step=action.step,
            kind=action.kind,
            number=len(self.history.attempts) + 1,
            round=action.round,
            state=answer.state,
            intended_at=intended,
            script_sha256="s",
            acting=action.acting,
            boot_id=answer.boot_id,
            targets=answer.targets or action.targets,
            not_started=answer.not_started,
            reason=answer.not_started or "",
            exit_code=answer.exit_code,
            signal=answer.signal,
            ended_by_us=answer.ended_by_us,
            stdout_bytes=answer.stdout_bytes,
            output_sha256=None if answer.state.open else "o" * 64,
            asked_at=self.now,
            answered_at=self.now,
            finished_at=self.now,
        )
        self.history = replace(self.history, attempts=(*self.history.attempts, attempt))

    def _open(self, action: OpenGate) -> bool:
        decision = next(self._decisions.get(action.step, iter(())), GateState.APPROVED)
        state = GateState.WAIVED if action.waived else decision
        digest = gate_digest(
            plan_digest="d", node="gpu-01", step=action.step, boot_id=action.boot_id, targets=action.targets
        )
        gate = Gate(
            id=f"g{len(self.history.gates) + 1}",
            run_id="r",
            node_run_id="nr",
            node="gpu-01",
            step=action.step,
            round=action.round,
            kind=action.kind,
            state=state,
            digest=digest,
            boot_id=action.boot_id,
            targets=action.targets,
            opened_at=self.now,
            expires_at=self.now + timedelta(hours=1),
            check_attempt_id=action.check_attempt_id,
            decided_by="second",
        )
        self.history = replace(self.history, gates=(*self.history.gates, gate))
        if state is GateState.EXPIRED:
            self.history = replace(self.history, gates=(*self.history.gates[:-1], replace(gate, state=GateState.OPEN)))
            self.now = gate.expires_at
        return state is not GateState.OPEN

    def _settle(self, action: Settle | Stop | GiveUp) -> None:
        """Settling learns what the script's next answer is."""
        changed = []
        for attempt in self.history.attempts:
            if attempt.id != action.attempt_id:
                changed.append(attempt)
                continue
            answer = next(self._answers[f"{attempt.step}.{attempt.kind}.settled"])
            self.now += answer.takes
            told = replace(attempt, state=answer.state, exit_code=answer.exit_code)
            changed.append(replace(told, asked_at=self.now, answered_at=self.now))
        self.history = replace(self.history, attempts=tuple(changed))


def _repeat_last(answers: Sequence[Answer]) -> Iterator[Answer]:
    yield from answers
    while True:
        yield answers[-1]
