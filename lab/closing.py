"""What has a `close` can be used in a `with` block."""

from types import TracebackType
from typing import Self


class Closing:
    """A lab object that is closed when its block ends, also by an error."""

    def close(self) -> None:
        """Undo what the object made."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        """Give the object itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()
