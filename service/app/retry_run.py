"""Retry a run: a new run of the same runbook and parameters, which looks and asks anew."""

from service.app.request_run import RunRequest, request_run
from service.app.service import Service
from service.domain.errors import Conflict
from service.domain.person import Person
from service.domain.run import NodeRunState, Run


def retry_run(
    service: Service,
    run_id: str,
    *,
    person: Person,
    from_step: str | None,
    failed_nodes: bool,
    reason: str,
    idempotency_key: str | None = None,
) -> Run:
    """Request a run again, on all of its nodes or on those that did not succeed.

    Who requested the first run counts as requester of the new one too. Raises Forbidden, Conflict while the
    first one is open, or when no node is left.
    """
    run = service.store.read(lambda reader: reader.run(run_id))
    node_runs = service.store.read(lambda reader: reader.node_runs(run_id))
    if any(not one.state.ended for one in node_runs):
        raise Conflict(f"Run {run_id} has not ended.", "Cancel or resolve it first.")
    chosen = [one for one in node_runs if not failed_nodes or one.state is not NodeRunState.SUCCEEDED]
    if not chosen:
        raise Conflict(f"Every node of run {run_id} has succeeded.", "Request a new run instead.")
    return request_run(
        service,
        RunRequest(
            runbook=run.runbook,
            requested_by=person.name,
            nodes=tuple(one.node for one in chosen),
            params=run.params,
            dry_run=run.dry_run,
            reason=reason,
            idempotency_key=idempotency_key,
            also_requested_by=run.requesters,
            retry_of=run.id,
            from_step=from_step,
        ),
        person=person,
    )
