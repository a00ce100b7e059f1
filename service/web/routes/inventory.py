"""Where nodes come from."""

from fastapi import APIRouter

from service.web.auth import Reads
from service.web.errors import declared
from service.web.routes.common import API, Serving, operation_id
from service.web.schemas.node import InventoryDetail

router = APIRouter(
    generate_unique_id_function=operation_id,
    prefix=f"{API}/inventory",
    tags=["nodes"],
    responses=declared(401, 403, 503),
)


@router.get("", summary="Show where nodes come from")
def show_inventory(service: Serving, _person: Reads) -> InventoryDetail:
    """Show how each source of nodes stands, and the names that are refused because they are not clear."""
    return InventoryDetail.of(service.inventory.current(), now=service.clock.now())
