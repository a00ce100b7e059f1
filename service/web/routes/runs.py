"""Runs: request, look, cancel, retry, resolve."""

from typing import Annotated

from fastapi import APIRouter, Header, Query, Response

from service.app import show_run
from service.app.cancel_run import cancel_run
from service.app.ports import RunFilter
from service.app.request_run import RunRequest, Selector, request_run
from service.app.resolve import resolve
from service.app.retry_run import retry_run
from service.domain.run import Run
from service.web.auth import Cancels, Reads, Requests, Resolves
from service.web.errors import declared, declared_with_body
from service.web.routes.common import API, NodePath, RunId, Serving, operation_id
from service.web.schemas.common import Listed
from service.web.schemas.plan import PlanDetail
from service.web.schemas.query import PlanQuery, RunsQuery
from service.web.schemas.run import (
    Cancel,
    CancelRequested,
    NodeRunDetail,
    Resolve,
    Retry,
    RunDetail,
    RunListed,
    RunRequestBody,
)

router = APIRouter(
    generate_unique_id_function=operation_id,
    prefix=f"{API}/runs",
    tags=["runs"],
    responses=declared(401, 403, 422, 503),
)
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=r"^[!-~]{1,200}$",
        description="The same key with the same request gives the same run, however often it is sent.",
    ),
]


@router.post("", status_code=202, summary="Request a run", responses=declared_with_body(404, 409))
def create_run(
    service: Serving, person: Requests, body: RunRequestBody, response: Response, key: IdempotencyKey = None
) -> RunDetail:
    """Record a run that the engine plays. With `dry_run` it only looks, and says what it would do.

    202 means recorded: it is not lost any more. `Location` says where it is.
    """
    return _accepted(
        service, request_run(service, run_request(body, person=person.name, key=key), person=person), response
    )


@router.get("", summary="List runs, newest first")
def list_runs(service: Serving, _person: Reads, query: Annotated[RunsQuery, Query()]) -> Listed[RunListed]:
    """Show runs without their steps; a run's own address has them."""
    which = RunFilter(query.runbook, query.node, query.state, query.dry_run, query.requested_by)
    page = show_run.list_runs(service, which, cursor=query.cursor, limit=query.limit)
    return Listed(items=[RunListed.of(row) for row in page.items], next_cursor=page.next_cursor)


@router.get("/{run_id}", summary="Show a run", responses=declared(404))
def show_one_run(service: Serving, _person: Reads, run_id: RunId) -> RunDetail:
    """Show a run with its nodes, steps, attempts and gates."""
    return RunDetail.of(show_run.show_run(service, run_id))


@router.get("/{run_id}/plan", summary="Show what a run sends", responses=declared(404))
def show_run_plan(service: Serving, _person: Reads, run_id: RunId, query: Annotated[PlanQuery, Query()]) -> PlanDetail:
    """Show the runbook as it was planned, and every script, byte for byte what the digest covers."""
    position = int(query.cursor or 0)
    return PlanDetail.of(show_run.show_plan(service, run_id, position=position, limit=query.limit))


@router.post("/{run_id}/cancel", status_code=202, summary="Cancel a run", responses=declared_with_body(404, 409))
def cancel_one_run(service: Serving, person: Cancels, run_id: RunId, body: Cancel | None = None) -> CancelRequested:
    """Send nothing more, and stop what runs. A remote command may still be running until the run says how it ended."""
    reason = body.reason if body is not None else ""
    return CancelRequested.model_validate(cancel_run(service, run_id, person=person, reason=reason))


@router.post("/{run_id}/retry", status_code=202, summary="Request a run again", responses=declared_with_body(404, 409))
def retry_one_run(
    service: Serving,
    person: Requests,
    run_id: RunId,
    response: Response,
    body: Retry | None = None,
    key: IdempotencyKey = None,
) -> RunDetail:
    """Make a new run of the same runbook and parameters, which looks and asks anew.

    Who requested the first run counts as requester of the new one too.
    """
    given = body or Retry()
    run = retry_run(
        service,
        run_id,
        person=person,
        from_step=given.from_step,
        failed_nodes=given.failed_nodes,
        reason=given.reason,
        idempotency_key=key,
    )
    return _accepted(service, run, response)


@router.post(
    "/{run_id}/nodes/{node}/resolve",
    status_code=202,
    summary="Resolve a stuck node",
    responses=declared_with_body(404, 409),
)
def resolve_node_run(service: Serving, person: Resolves, run_id: RunId, node: NodePath, body: Resolve) -> NodeRunDetail:
    """Say how a node goes on whose outcome is unknown. No gate is passed by it."""
    resolve(service, run_id, node=node, resolve_as=body.resolve_as, reason=body.reason, person=person)
    return NodeRunDetail.of(show_run.show_node_run(service, run_id, node=node))


def run_request(body: RunRequestBody, *, person: str, key: str | None = None) -> RunRequest:
    """Return what a request body asks for, in the words of the use case."""
    chosen = body.selector
    return RunRequest(
        runbook=body.runbook,
        requested_by=person,
        nodes=tuple(body.nodes),
        selector=Selector(chosen.pool, dict(chosen.attributes)) if chosen is not None else None,
        params=body.params,
        dry_run=body.dry_run,
        reason=body.reason,
        idempotency_key=key,
        take_over=body.take_over,
    )


def _accepted(service: Serving, run: Run, response: Response) -> RunDetail:
    response.headers["Location"] = f"{API}/runs/{run.id}"
    return RunDetail.of(show_run.show_run(service, run.id))
