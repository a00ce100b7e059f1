"""Reads of what rights are held against."""

from collections.abc import Collection, Mapping

from sqlalchemy import select

from service.store.looks import Looks
from service.store.tables import node_runs


class RightsReads(Looks):
    """The part of a reader that knows the pools of what was planned."""

    def planned_pools(self, node_run_ids: Collection[str]) -> Mapping[str, frozenset[str]]:
        """Return the pools that the node of each node run was in when it was planned, in one query."""
        if not node_run_ids:
            return {}
        query = select(node_runs.c.id, node_runs.c.attributes).where(node_runs.c.id.in_(sorted(set(node_run_ids))))
        return {row["id"]: frozenset(row["attributes"].get("pools", ())) for row in self._all(query)}
