"""The OpenAPI document: what FastAPI makes of the routes, with what it cannot know."""

from collections.abc import Iterator
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from service.web.errors import MEDIA_TYPE

TITLE: Final = "unstick"
DESCRIPTION: Final = """\
Cures stuck GPU nodes: reviewed runbooks, a true dry run, approval gates, proof of the cure, and a record.

**First steps**

1. On the host of the service: `unstick token create --name you --role operator` prints a token.
   Press *Authorize* and paste it.
2. `GET /api/v1/runbooks` and `GET /api/v1/nodes` show what can be done, and where.
3. `POST /api/v1/runs` with `"dry_run": true` looks, and says what it would do. 202 means: recorded.
4. `GET /api/v1/runs/{run_id}` shows it; `/events` follows it. Without `dry_run` a step that changes
   something stops at a gate.
5. `GET /api/v1/approvals` lists the gates, and `GET /api/v1/approvals/{gate_id}` shows what the check has
   said (`check_output`) and what would be acted on (`targets`).
   `POST /api/v1/approvals/{gate_id}/approve` answers with the gate's digest: what you saw is what runs.
   At a `second_person` gate that is never the requester.
6. `GET /api/v1/audit/timeline?run_id=...&format=md` is the postmortem's first page.

Every refusal is a problem (RFC 9457): `detail` says why, `way_out` what to do next.
"""
TAGS: Final = [
    {"name": "runs", "description": "Requests and what became of them."},
    {"name": "approvals", "description": "Gates, and the answers of persons."},
    {"name": "plans", "description": "What would be sent, without a run."},
    {"name": "runbooks", "description": "The cures."},
    {"name": "nodes", "description": "The machines, and who keeps hands off them."},
    {"name": "attempts", "description": "What the scripts have said."},
    {"name": "alerts", "description": "What monitors have said, and what was decided of it."},
    {"name": "notices", "description": "What people were told, and whether it has reached them."},
    {"name": "sweeps", "description": "What is looked at on a schedule, and what was seen."},
    {"name": "policy", "description": "What you may do, and what decides it."},
    {"name": "audit", "description": "Who did what, and when."},
    {"name": "service", "description": "The service itself."},
]


def document(app: FastAPI) -> dict[str, Any]:
    """Return the document, made once."""
    if app.openapi_schema is None:
        schema = get_openapi(
            title=app.title, version=app.version, description=app.description, tags=TAGS, routes=app.routes
        )
        for operation in _operations(schema):
            _add_rates(operation)
            _mark_problems(operation)
        app.openapi_schema = schema
    return app.openapi_schema


def _operations(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path in schema["paths"].values():
        yield from path.values()


def _add_rates(operation: dict[str, Any]) -> None:
    """Say of whatever a person asks that it may be too much at once; senders of alerts get 503 for that."""
    responses = operation["responses"]
    if "403" in responses:
        wait = {"description": "Seconds to wait.", "schema": {"type": "integer"}}
        responses["429"] = {**responses["403"], "description": "Too Many Requests", "headers": {"Retry-After": wait}}


def _mark_problems(operation: dict[str, Any]) -> None:
    """Give refusals their media type; FastAPI takes every model for application/json."""
    for status, response in operation["responses"].items():
        content = response.get("content", {})
        if status >= "400" and "application/json" in content:
            response["content"] = {MEDIA_TYPE: content["application/json"]}
