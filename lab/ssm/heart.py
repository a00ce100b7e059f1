"""What happens by itself as time passes: delivery, tries, cancels, timeouts, MaxConcurrency and MaxErrors."""

import threading

from lab.ssm.agent import Agent, Document, Offer
from lab.ssm.commands import Command, Invocation
from lab.ssm.state import State

BEAT_SECONDS = 0.02
REST_SECONDS = 0.2


class Heart:
    """A thread that looks at all commands that have not ended, many times a second."""

    def __init__(self, state: State) -> None:
        """Prepare; `start` begins."""
        self._state = state
        self._thread = threading.Thread(target=self._beat, name="ssm heart", daemon=True)

    def start(self) -> None:
        """Begin to beat."""
        self._thread.start()

    def stop(self) -> None:
        """Wait for the thread's end; the hub's `closing` must be set."""
        with self._state.lock:
            self._state.lock.notify_all()
        self._thread.join()

    def _beat(self) -> None:
        state = self._state
        while not state.hub.closing.is_set():
            with state.lock:
                for agent in state.agents.values():
                    if agent.documents:
                        agent.look()
                for command in list(state.live.values()):
                    tick(state, command)
                busy = bool(state.live) or any(agent.documents for agent in state.agents.values())
                if not busy:
                    state.lock.wait(REST_SECONDS)
            if busy:
                state.hub.closing.wait(BEAT_SECONDS)


def tick(state: State, command: Command) -> None:
    """Let one command go on as far as time allows."""
    now = state.now()
    _release(command)
    for invocation in command.invocations:
        agent = state.agents.get(invocation.instance)
        if command.duplicates_left.get(invocation.instance) and invocation.delivered is not None:
            command.duplicates_left[invocation.instance] -= 1
            deliver_again(command, agent)
        if invocation.ended:
            continue
        if invocation.cancel_due is not None and now >= invocation.cancel_due:
            invocation.cancel_due = float("inf")
            if agent is not None:
                agent.cancel(command.id)
        if invocation.delivered is None and invocation.released and now >= invocation.next_try:
            _try(state, command, invocation)
    _give_up(state, command)
    if command.ended:
        _settle_duplicates(command)
        if not command.duplicates_left:
            del state.live[command.id]


def _release(command: Command) -> None:
    """Let waiting invocations go while MaxConcurrency allows; end them when there were too many errors."""
    waiting = [each for each in command.invocations if not each.released and not each.ended]
    if not waiting:
        return
    if command.errors > command.error_limit:
        for invocation in waiting:
            invocation.become("Cancelled", "Terminated")
        return
    free = command.concurrency - sum(each.released and not each.ended for each in command.invocations)
    for invocation in waiting[: max(0, free)]:
        invocation.released = True


def _try(state: State, command: Command, invocation: Invocation) -> None:
    """Bring an invocation to its agent, or write down why not."""
    now, faults = state.now(), state.hub.faults
    invocation.next_try = now + state.timing.retry
    instance = state.instances.get(invocation.instance)
    refused = faults.refused.get(invocation.instance)
    if instance is None or instance.state == "Terminated":
        refused = "Undeliverable"
    elif instance.platform == "Windows":
        refused = "InvalidPlatform"
    if refused is not None:
        invocation.become("Failed", refused)
        return
    if now > command.sent + command.timeout:
        return  # "If this time is reached and the command hasn't already started running, it won't run."
    offer = state.agents[invocation.instance].offer(_document(command))
    if offer is Offer.TAKEN:
        invocation.delivered = now
        if not invocation.ended:
            invocation.become("InProgress")
    elif offer is Offer.UNREACHABLE:
        invocation.become(faults.undelivered)


def deliver_again(command: Command, agent: Agent | None) -> Offer:
    """Bring the same command once more, as the service may; the agent drops what it has heard."""
    return Offer.UNREACHABLE if agent is None else agent.offer(_document(command))


def _settle_duplicates(command: Command) -> None:
    """Forget duplicates of what was never delivered, and those that are through."""
    for invocation in command.invocations:
        if invocation.delivered is None or not command.duplicates_left.get(invocation.instance):
            command.duplicates_left.pop(invocation.instance, None)


def _give_up(state: State, command: Command) -> None:
    """End what has not ended when the total timeout is over: TimeoutSeconds, then the scripts' own time."""
    now, script_now = state.now(), state.hub.clock.script()
    last, script_last = command.seen
    command.seen = (now, script_now)
    start = command.sent + command.timeout
    if now < start:
        return
    if command.overdue_since is None:
        # Between two looks both times went on evenly, also when a test let much pass at once.
        part = (start - last) / (now - last) if last < start else 0.0
        command.overdue_since = script_last + part * (script_now - script_last)
    if script_now >= command.overdue_since + command.execution_seconds:
        for invocation in command.invocations:
            if not invocation.ended:
                invocation.become("TimedOut", "DeliveryTimedOut")


def _document(command: Command) -> Document:
    return Document(command.id, command.version.steps, command.steps)
