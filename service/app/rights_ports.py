"""What is needed of the record to say who may do what; the store's ports take this in."""

from collections.abc import Collection, Mapping
from typing import Protocol


class RightsReader(Protocol):
    """Reads of what rights are held against."""

    def planned_pools(self, node_run_ids: Collection[str]) -> Mapping[str, frozenset[str]]:
        """Return the pools that the node of each node run was in when it was planned, in one query."""
