"""Nodes: look, hold, release."""

from typing import Annotated

from fastapi import APIRouter, Query

from service.app.hold_node import hold_node, release_node
from service.app.ports import Reader
from service.app.show_survey import show_survey
from service.domain.node import Inventory, Node
from service.domain.run import HOLDING_STATES, Hold, NodeRun
from service.web.auth import Holds, Reads
from service.web.errors import declared, declared_with_body
from service.web.routes.common import API, NodePath, Serving, operation_id
from service.web.schemas.common import Listed
from service.web.schemas.node import HoldAnswer, HoldDetail, HoldRequest, NodeDetail, Released, ReleaseRequest
from service.web.schemas.query import NodesQuery
from service.web.schemas.survey import SurveyDetail

router = APIRouter(
    generate_unique_id_function=operation_id,
    prefix=f"{API}/nodes",
    tags=["nodes"],
    responses=declared(401, 403, 422, 503),
)


@router.get("", summary="List nodes, by name")
def list_nodes(service: Serving, _person: Reads, query: Annotated[NodesQuery, Query()]) -> Listed[NodeDetail]:
    """Show the inventory: how each node is reached, whether it is on hold, and which run has it."""
    inventory = service.inventory.current()
    names = sorted(name for name, node in inventory.nodes.items() if query.pool in (None, *node.pools))
    left = [name for name in names if query.cursor is None or name > query.cursor]
    shown = _shown(service, [inventory.nodes[name] for name in left[: query.limit]], inventory=inventory)
    return Listed(items=shown, next_cursor=left[query.limit - 1] if len(left) > query.limit else None)


@router.get("/{node}", summary="Show a node", responses=declared(404, 409))
def show_node(service: Serving, _person: Reads, node: NodePath) -> NodeDetail:
    """Show one node of the inventory; 409 when it is not clear which machine it is, or whether there is one."""
    inventory = service.inventory.current()
    return _shown(service, [inventory.node(node)], inventory=inventory)[0]


@router.get("/{node}/survey", summary="Look at what runs on a node", responses=declared(404, 409))
def survey_node(service: Serving, _person: Reads, node: NodePath) -> SurveyDetail:
    """Ask the node and its cluster, by scripts that only read, what runs there and who else has it; at most 20 s.

    What is out of reach could not be seen, and says why. 503 when too many look at nodes at this moment.
    """
    return SurveyDetail.of(show_survey(service, node))


@router.post("/{node}/hold", summary="Hold a node", responses=declared_with_body(404, 409))
def hold_one_node(service: Serving, person: Holds, node: NodePath, body: HoldRequest) -> HoldAnswer:
    """Say hands off. Queued and waiting runs end there; one that acts goes on, and the answer names it.

    409 when the node is on hold already: `replace` takes the place of that hold, and the audit tells of both.
    """
    held = hold_node(service, node, person=person, reason=body.reason, until=body.until, replace=body.replace)
    return HoldAnswer.of(held)


@router.post("/{node}/release", summary="Release a node", responses=declared_with_body(409))
def release_one_node(service: Serving, person: Holds, node: NodePath, body: ReleaseRequest | None = None) -> Released:
    """End the hold of a node, whoever set it; the answer says whose it was."""
    hold = release_node(service, node, person=person, reason=body.reason if body is not None else "")
    return Released(node=node, hold=HoldDetail.model_validate(hold))


def _shown(service: Serving, nodes: list[Node], *, inventory: Inventory) -> list[NodeDetail]:
    now = service.clock.now()

    def look(reader: Reader) -> tuple[dict[str, Hold], dict[str, NodeRun]]:
        holds = {hold.node: hold for hold in reader.holds() if hold.active(now)}
        holders = {one.node: one for one in reader.open_acting() if one.state in HOLDING_STATES}
        return holds, holders

    holds, holders = service.store.read(look)
    return [NodeDetail.of(node, stale=inventory.is_stale(node, now), holds=holds, holders=holders) for node in nodes]
