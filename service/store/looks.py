"""How every read looks at the database, and how lists page: by keyset, never counting, never skipping rows."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, literal, tuple_

from service.domain.errors import InvalidInput
from service.store import cursor as cursors


class Looks:
    """Looks through one connection, in the transaction that it has."""

    def __init__(self, connection: Connection) -> None:
        """Take the connection."""
        self._connection = connection

    def _page(
        self,
        query: Select[Any],
        at: ColumnElement[Any] | None,
        key: ColumnElement[Any],
        *,
        cursor: str | None,
        limit: int,
        kind: str,
    ) -> tuple[Sequence[RowMapping], bool]:
        """Return one page of a query, newest first, and whether more follows. Without `at` the key alone orders."""
        if limit < 1:
            raise InvalidInput(f"A page of {limit} rows is none.", "Ask for 1 to 200 rows.")
        if cursor is not None:
            moment, value = cursors.decode(kind, cursor, key=int if kind == "audit" else str)
            place = literal(value, key.type)
            query = query.where(
                key < place if at is None else tuple_(at, key) < tuple_(literal(moment, at.type), place)
            )
        order = [key.desc()] if at is None else [at.desc(), key.desc()]
        found = self._all(query.order_by(*order).limit(limit + 1))
        return found[:limit], len(found) > limit

    def _first(self, query: Select[Any], values: Mapping[str, Any] | None = None) -> RowMapping | None:
        return self._connection.execute(query, values).mappings().first()

    def _all(self, query: Select[Any], values: Mapping[str, Any] | None = None) -> Sequence[RowMapping]:
        return self._connection.execute(query, values).mappings().all()
