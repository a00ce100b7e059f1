"""Drive one node run: ask what is next, record the intent, do it, record the result, again.

Returns when the node run must wait or has ended; then `wake_at` says when it is due again.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from service.app.driven import SELF, Driven, decisions, load
from service.app.end_node_run import end_node_run
from service.app.gates import close_gate, open_gate
from service.app.ports import Transaction
from service.app.send_script import ask, dispatch_script, give_up
from service.app.service import Service
from service.app.start_node_run import start_node_run
from service.domain.action import (
    CloseGate,
    Dispatch,
    Ended,
    GiveUp,
    OpenGate,
    Settle,
    Stop,
    WaitForDecision,
    WaitUntil,
)
from service.domain.audit import Fact
from service.domain.next_action import judge
from service.domain.run import History, NodeRun, NodeRunState, Verdict


def drive(service: Service, node_run: NodeRun, *, keep_on: Callable[[], bool] = lambda: True) -> None:
    """Go on with a claimed node run until it waits, has ended, or `keep_on` says no.

    In the last case it stays claimed, for the next owner to take. Raises EpochLost when another
    owner has taken it, Unavailable when nothing can be recorded.
    """
    if node_run.state is NodeRunState.QUEUED and not start_node_run(service, node_run):
        return
    driven = load(service, node_run)
    while keep_on() and _one_step(driven, node_run):
        pass


def _one_step(driven: Driven, claimed: NodeRun) -> bool:
    """Do the next thing; False when the node run waits or has ended."""
    service = driven.service
    history = service.store.read(lambda reader: reader.history(claimed.id))
    judgement = judge(driven.runbook, driven.run, history=history, now=service.clock.now())
    mine = replace(history.node_run, verdict=None, results=judgement.results, owner=claimed.owner, epoch=claimed.epoch)
    history = replace(history, node_run=mine)
    action = judgement.action
    match action:
        case Dispatch():
            dispatch_script(driven, history, dispatch=action)
        case Settle() | Stop():
            ask(driven, history, action=action)
        case GiveUp():
            give_up(driven, history, attempt_id=action.attempt_id)
        case OpenGate():
            open_gate(driven, history, opening=action)
        case CloseGate():
            close_gate(driven, history, closing=action)
        case WaitUntil() | WaitForDecision():
            return _wait(driven, history, wait=action)
        case Ended():
            end_node_run(service, history.node_run, run=driven.run, runbook=driven.runbook, ended=action)
            return False
        case _:
            assert_never(action)
    return True


def _wait(driven: Driven, history: History, *, wait: WaitUntil | WaitForDecision) -> bool:
    """Write down what the node run waits for and give it back; True when a person was faster."""
    at = wait.at if isinstance(wait, WaitUntil) else wait.until
    before = history.node_run
    verdict = Verdict.UNKNOWN if wait.state is NodeRunState.STUCK else None
    node_run = replace(before, state=wait.state, verdict=verdict, reason=wait.reason, wake_at=at)

    def record(transaction: Transaction) -> bool:
        if decisions(transaction.history(node_run.id)) != decisions(history):
            return True
        transaction.release(node_run)
        if wait.state is NodeRunState.STUCK:
            # Also where it was stuck before: then a person's word brought nothing new, and the record says so.
            about = f"node_run/{node_run.id}"
            body = {"reason": wait.reason}
            fact = Fact("node_run.stuck", about, SELF, run_id=node_run.run_id, node=node_run.node, body=body)
            transaction.append(fact)
        return False

    return driven.service.store.write(record)
