"""The memory that deliveries may take while they come in, so that whoever only pretends to deliver keeps nobody out.

A body must be read before its signature can be judged, and one that drips holds its room for 15 seconds. What a forged
one costs besides is one HMAC over what was really sent, a thousandth of a second for each MiB: the network bounds it.
"""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Final

#: Of all deliveries that are taken at this moment together (bytes).
MOST_BYTES_AT_ONCE: Final = 64 * 1024 * 1024
#: A sender whose signature was right is no stranger for so long (seconds), until the next right one.
TRUSTED: Final = 24 * 3600.0
_MOST_TRUSTED: Final = 1000


class Share:
    """Gives room to deliveries. Asked on the event loop alone.

    Who has shown a token may take all of it, senders that have signed lately together three quarters, and strangers
    together a half; one such sender a quarter, and one stranger an eighth. A stranger is an address; a sender is an
    address and the source that has proven itself from there, so a flood from the same address keeps it not out either,
    unless it knows the name of that source. So there is room for those that have proven something.
    """

    def __init__(self, size: int = MOST_BYTES_AT_ONCE, *, now: Callable[[], float] = time.monotonic) -> None:
        """Give out so many bytes."""
        self._size = size
        self._now = now
        self._taken = 0
        self._of: Counter[str] = Counter()
        self._trusted: OrderedDict[str, float] = OrderedDict()

    def holder(self, address: str, source: str) -> str:
        """Return for whom a delivery that has no token takes room: a sender that has signed lately, or an address."""
        sender = _sender(address, source)
        return sender if self._trusts(sender) else address

    def take(self, size: int, holder: str | None) -> bool:
        """Whether so much was free for a holder, and is taken now; None: for who has shown a token."""
        if holder is not None:
            trusted = self._trusts(holder)
            together = sum(taken for other, taken in self._of.items() if trusted or not self._trusts(other))
            if together + size > self._size * (3 if trusted else 2) // 4:
                return False
            if self._of[holder] + size > self._size // (4 if trusted else 8):
                return False
        if self._taken + size > self._size:
            return False
        self._taken += size
        if holder is not None:
            self._of[holder] += size
        return True

    def give_back(self, size: int, holder: str | None) -> None:
        """Give back what was taken."""
        self._taken -= size
        if holder is not None:
            self._of[holder] -= size
            # Without those that hold nothing any more.
            self._of = +self._of

    def trust(self, address: str, source: str) -> None:
        """Remember that a signature of this source was right that came from this address."""
        sender = _sender(address, source)
        self._trusted.pop(sender, None)
        self._trusted[sender] = self._now()
        while len(self._trusted) > _MOST_TRUSTED:
            self._trusted.popitem(last=False)

    def _trusts(self, holder: str) -> bool:
        at = self._trusted.get(holder)
        return at is not None and self._now() - at < TRUSTED


def _sender(address: str, source: str) -> str:
    # No address has a space in it.
    return f"{address} {source}"
