"""Look at a node for a person, before anything is requested."""

import threading
from typing import Final

from service.app.service import Service
from service.domain.errors import Unavailable
from service.domain.survey import Survey

#: So many persons look at the same time: each look keeps a thread of the web for up to its bound.
_AT_ONCE: Final = 4
_places = threading.BoundedSemaphore(_AT_ONCE)


def show_survey(service: Service, name: str) -> Survey:
    """Return what runs on a node now and who else has it; NotFound, or Conflict when it is not clear which node it is.

    Raises Unavailable when too many look at nodes at this moment.
    """
    inventory = service.inventory.current()
    node = inventory.node(name)
    if not _places.acquire(blocking=False):
        raise Unavailable(f"{_AT_ONCE} looks at nodes are under way.", "Ask again in some seconds.")
    try:
        survey = service.surveyor.survey(node, inventory)
    finally:
        _places.release()
    if survey is None:
        raise Unavailable("This service looks at no node by itself.", "Ask one that was started with `unstick serve`.")
    return survey
