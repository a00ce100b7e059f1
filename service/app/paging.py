"""One page of a list."""

from dataclasses import dataclass
from typing import Generic, TypeVar

Row = TypeVar("Row")


@dataclass(frozen=True)
class Page(Generic[Row]):
    """Some rows and the key of the next ones, None at the end."""

    items: tuple[Row, ...]
    next_cursor: str | None
