"""Reads what somebody else sends in parts, and stops where it has no end."""

from collections.abc import Callable, Iterable


def whole(parts: Iterable[bytes], *, most: int, late: Callable[[], bool] = lambda: False) -> bytes | None:
    """Return the parts as one; None where they are more than `most` bytes, or one has come when it was late."""
    body = bytearray()
    for part in parts:
        body += part
        if len(body) > most or late():
            return None
    return bytes(body)
