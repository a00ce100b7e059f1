"""Start a queued node run, when its node, its roll-out and its limits allow it."""

from dataclasses import replace
from typing import assert_never

from service.app.driven import SELF
from service.app.load_runbooks import parse_runbook
from service.app.ports import Transaction
from service.app.service import Service
from service.domain.audit import Fact
from service.domain.limits import Admission, Admitted, admit
from service.domain.run import NodeRun, NodeRunState, TriggerKind


def start_node_run(service: Service, node_run: NodeRun) -> bool:
    """Take the node, or write down what the node run waits for; False when it waits.

    One that was cancelled, that is on hold or whose roll-out was called off goes on, to end.
    """
    inventory = service.inventory.current()
    pool_size = inventory.pool_size(node_run.pool) if node_run.pool else len(inventory.nodes)

    def record(transaction: Transaction) -> bool:
        known = transaction.node_run(node_run.id)
        if known.cancel_requested_by is not None:
            return True
        now = service.clock.now()
        # A sweep touches nothing: neither a hold nor a failure elsewhere keeps it from looking.
        looks = transaction.run(node_run.run_id).trigger.kind is TriggerKind.SWEEP
        hold = None if looks else transaction.hold(node_run.node)
        if hold is not None and hold.active(now):
            transaction.request_cancel(node_run.id, by=hold.by, reason=f"node {hold.node} is {hold.words}")
            return True
        admitted = Admitted(Admission.START) if looks else _ask(transaction, node_run, pool_size=pool_size)
        match admitted.answer:
            case Admission.WAIT:
                transaction.release(replace(node_run, reason=admitted.reason, wake_at=None))
                return False
            case Admission.CALL_OFF:
                transaction.request_cancel(node_run.id, by=SELF, reason=admitted.reason)
                return True
            case Admission.START:
                transaction.save_node_run(
                    replace(node_run, state=NodeRunState.RUNNING, reason="", wake_at=None, started_at=now)
                )
                about = f"node_run/{node_run.id}"
                fact = Fact("node_run.started", about, SELF, run_id=node_run.run_id, node=node_run.node)
                transaction.append(fact)
                return True
            case _:
                assert_never(admitted.answer)

    return service.store.write(record)


def _ask(transaction: Transaction, node_run: NodeRun, *, pool_size: int) -> Admitted:
    source = transaction.runbook_source(node_run.run_id)
    limits = parse_runbook(source, f"{source.name}.yaml").limits
    counted = node_run.acts and limits.concurrent_nodes is not None
    return admit(
        node_run,
        limits,
        siblings=transaction.rollout(node_run.run_id, canary=limits.canary),
        same_runbook=transaction.acting_on_nodes(node_run.runbook) if counted else (),
        on_node=transaction.holder(node_run.node) if node_run.acts else None,
        pool_size=pool_size,
    )
