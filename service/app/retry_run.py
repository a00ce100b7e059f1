"""Retry a run: a new run of the same runbook and parameters, which looks and asks anew."""

from service.app.request_run import RunRequest, request_run
from service.app.service import Service
from service.domain.errors import Conflict
from service.domain.person import Person
from service.domain.run import NodeRunState, Run, retried_by


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

    Who requested the first run, or had a step of it begun anew, counts as requester of the new one too. Raises
    Forbidden, Conflict while the first one is open, or when no node is left.
    """
    run = service.store.read(lambda reader: reader.run(run_id))
    histories = service.store.read(lambda reader: reader.histories(run_id))
    if any(not one.node_run.state.ended for one in histories):
        raise Conflict(f"Run {run_id} has not ended.", "Cancel or resolve it first.")
    chosen = [one for one in histories if not failed_nodes or one.node_run.state is not NodeRunState.SUCCEEDED]
    if not chosen:
        raise Conflict(f"Every node of run {run_id} has succeeded.", "Request a new run instead.")
    return request_run(
        service,
        RunRequest(
            runbook=run.runbook,
            requested_by=person.name,
            nodes=tuple(one.node_run.node for one in chosen),
            params=run.params,
            dry_run=run.dry_run,
            reason=reason,
            idempotency_key=idempotency_key,
            also_requested_by=(*run.requesters, *retried_by(said for one in chosen for said in one.resolutions)),
            retry_of=run.id,
            from_step=from_step,
        ),
        person=person,
    )
