"""The loop's one decision: what to do next for one node run, from what was recorded of it.

A pure function of the runbook, the run, the history and the time, so that a service that was
killed goes on exactly where it stopped. It refuses a reboot of which no evidence is stored.
"""

from dataclasses import dataclass, field
from datetime import datetime

from service.domain.action import Action, Dispatch, Ended, Judgement, WaitForDecision
from service.domain.errors import InvalidInput
from service.domain.play import Done, Stuck, first_script, play
from service.domain.run import AttemptState, History, NodeRunState, Run, StepOutcome, StepResult, Verdict
from service.domain.runbook import OnFailure, Runbook, Step
from service.domain.scene import Scene, ask_leftover, leftover
from service.domain.script import ScriptKind

_VERDICT_ORDER = (Verdict.UNKNOWN, Verdict.NOT_CURED, Verdict.CURED, Verdict.CLEARED, Verdict.WELL)


@dataclass
class _Course:
    """How far the judgement has come, step by step."""

    results: list[StepResult] = field(default_factory=list)
    #: The end that the steps so far ask for; the steps after it are not played.
    ends_as: NodeRunState | None = None
    reason: str = ""
    #: A step failed and left no verdict: it could not look.
    blind: bool = False


def next_action(runbook: Runbook, run: Run, *, history: History, now: datetime) -> Action:
    """Return the next thing to do for a node run."""
    return judge(runbook, run, history=history, now=now).action


def judge(runbook: Runbook, run: Run, *, history: History, now: datetime) -> Judgement:
    """Return the next thing to do and what became of each step so far."""
    course = _Course()
    for step in runbook.steps:
        done = _skipped(runbook, step, run=run, history=history, course=course)
        if done is None:
            scene = _scene(runbook, step, run=run, history=history, now=now)
            played = _beside_no_leftover(scene, first_or_play(scene))
            if isinstance(played, Stuck):
                course.results.append(StepResult(step.id, StepOutcome.UNKNOWN, played.reason, Verdict.UNKNOWN))
                return _judgement(WaitForDecision(NodeRunState.STUCK, None, played.reason), runbook, course)
            proven = _with_evidence(played, runbook, history=history, course=course) if step.reboots else played
            if not isinstance(proven, Done):
                return _judgement(proven, runbook, course)
            done = proven
        _note(step, done, course=course, may_go_on=_may_go_on(step, run=run, history=history))
    return _judgement(_ended(course, run=run, history=history), runbook, course)


def first_or_play(scene: Scene) -> Action | Done | Stuck:
    """Return how a step goes on; one that has not begun ends at once when the run was cancelled."""
    begun = any(attempt.step == scene.step.id for attempt in scene.history.attempts)
    if begun:
        return play(scene)
    if scene.cancelled:
        return Done(StepResult(scene.step.id, None, "Not reached."), NodeRunState.CANCELLED)
    if scene.step.always and scene.run.dry_run:
        return Done(StepResult(scene.step.id, StepOutcome.SKIPPED, "A dry run leaves nothing to undo."))
    return first_script(scene, 1)


def _scene(runbook: Runbook, step: Step, *, run: Run, history: History, now: datetime) -> Scene:
    cancelled = history.node_run.cancel_requested_by is not None and not step.always
    targets = _sent_targets(step.undoes, history) if step.undoes is not None else ()
    elsewhere = frozenset(one.id for one in runbook.steps if one.where is not step.where)
    return Scene(step, run, history, now, cancelled, targets or (), elsewhere)


def _skipped(runbook: Runbook, step: Step, *, run: Run, history: History, course: _Course) -> Done | None:
    """Return the end of a step that is not played, or None when it is."""
    if step.always:
        if _sent_targets(step.undoes or "", history) is None:
            return Done(StepResult(step.id, StepOutcome.SKIPPED, f"Step {step.undoes} was not sent."))
        return None
    if course.ends_as is not None:
        return Done(StepResult(step.id, None, "Not reached."))
    if run.from_step is not None and step.acts and _before(runbook, step.id, run.from_step):
        return Done(StepResult(step.id, StepOutcome.SKIPPED, f"It was played in run {run.retry_of}."))
    if step.when is None:
        return None
    try:
        holds = step.when.holds(_facts(run, history, course))
    except InvalidInput as error:
        return Done(StepResult(step.id, StepOutcome.FAILED, str(error)), NodeRunState.FAILED)
    return (
        None if holds else Done(StepResult(step.id, StepOutcome.SKIPPED, f"Its condition is false: {step.when.text}"))
    )


def _with_evidence(played: Action | Done, runbook: Runbook, *, history: History, course: _Course) -> Action | Done:
    """Return how a step goes on that may reboot the node: refused, while nothing is stored of the node before it."""
    if not isinstance(played, Dispatch) or played.kind is ScriptKind.VERIFY or _has_evidence(runbook, history, course):
        return played
    why = (
        "It may reboot the node, and no read-only step before it has ended ok with its output stored: nothing was sent."
        " Let the step that looks succeed, and request the run again."
    )
    return Done(StepResult(played.step, StepOutcome.FAILED, why), NodeRunState.FAILED)


def _has_evidence(runbook: Runbook, history: History, course: _Course) -> bool:
    ok = {result.step for result in course.results if result.outcome is StepOutcome.OK}
    looked = {step.id for step in runbook.steps if step.read_only and step.id in ok}
    return any(
        attempt.step in looked
        and attempt.kind is ScriptKind.RUN
        and attempt.output_sha256 is not None
        and attempt.stdout_bytes > 0
        for attempt in history.attempts
    )


def _facts(run: Run, history: History, course: _Course) -> dict[str, object]:
    outcomes = {result.step: {"outcome": result.outcome or ""} for result in course.results}
    trigger = {"kind": run.trigger.kind, "name": run.trigger.name}
    return {"params": run.params, "node": history.node_run.attributes, "trigger": trigger, "steps": outcomes}


def _before(runbook: Runbook, step: str, other: str) -> bool:
    names = [one.id for one in runbook.steps]
    return names.index(step) < names.index(other)


def _sent_targets(step: str, history: History) -> tuple[str, ...] | None:
    """Return the targets with which a step's run was last sent, or None when it never was."""
    for attempt in reversed(history.attempts):
        sent = attempt.state is not AttemptState.NOT_STARTED
        if attempt.step == step and attempt.kind is ScriptKind.RUN and sent:
            return attempt.targets
    return None


def _may_go_on(step: Step, *, run: Run, history: History) -> bool:
    """Whether a failure of this step leaves the next ones to be played."""
    wanted = step.on_failure is OnFailure.CONTINUE or run.dry_run
    return wanted and not step.always and leftover(history) is None


def _beside_no_leftover(scene: Scene, played: Action | Done | Stuck) -> Action | Done | Stuck:
    """Return what a step does next, but no further script while one of this node run cannot be killed."""
    left = leftover(scene.history)
    if left is None or not isinstance(played, Dispatch):
        return played
    asking = ask_leftover(scene.history, left)
    if asking is not None:
        return asking
    who = f"the {left.kind} of step {left.step} cannot be killed (pid {left.pid}, waits in {left.wchan})"
    return Stuck(f"Step {scene.step.id} is not played while {who}.")


def _note(step: Step, done: Done, *, course: _Course, may_go_on: bool) -> None:
    course.results.append(done.result)
    if done.ends_as is None:
        return
    if done.result.verdict is None and done.ends_as is NodeRunState.FAILED:
        course.blind = True
    if not may_go_on or done.ends_as is not NodeRunState.FAILED:
        _end(course, done.ends_as, reason=f"Step {step.id}: {done.result.reason}")
    elif course.reason == "":
        course.reason = f"Step {step.id}: {done.result.reason}"


def _end(course: _Course, state: NodeRunState, *, reason: str) -> None:
    """Keep the first end, but let a failed undoing outweigh a denial."""
    if course.ends_as is None:
        course.ends_as, course.reason = state, reason
    elif state is NodeRunState.FAILED and course.ends_as is not NodeRunState.FAILED:
        course.ends_as, course.reason = state, f"{course.reason} And then: {reason}"


def _ended(course: _Course, *, run: Run, history: History) -> Ended:
    broken = (StepOutcome.FAILED, StepOutcome.UNREACHABLE)
    failed = any(result.outcome in broken for result in course.results)
    state = course.ends_as or (NodeRunState.FAILED if failed else NodeRunState.SUCCEEDED)
    quiet = (NodeRunState.DENIED, NodeRunState.EXPIRED, NodeRunState.CANCELLED)
    verdict = None if run.dry_run or state in quiet else _verdict(course)
    reason = history.node_run.cancel_reason if state is NodeRunState.CANCELLED else course.reason
    return Ended(state, verdict, reason)


def _verdict(course: _Course) -> Verdict | None:
    present = {result.verdict for result in course.results}
    verdict = next((one for one in _VERDICT_ORDER if one in present), None)
    if course.blind and verdict not in (Verdict.UNKNOWN, Verdict.NOT_CURED):
        return None
    return verdict


def _judgement(action: Action, runbook: Runbook, course: _Course) -> Judgement:
    told = {result.step for result in course.results}
    rest = [StepResult(step.id, None) for step in runbook.steps if step.id not in told]
    return Judgement(action, (*course.results, *rest))
