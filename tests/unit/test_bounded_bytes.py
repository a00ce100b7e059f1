"""What comes in parts is read up to a bound, and no further."""

from collections.abc import Iterator
from itertools import repeat

import pytest

from service.domain.bounded_bytes import whole


@pytest.mark.parametrize(("parts", "body"), [([], b""), ([b"ab", b"", b"c"], b"abc"), ([b"ab", b"cd"], None)])
def test_parts_are_one_body_up_to_the_bound(parts: list[bytes], body: bytes | None) -> None:
    assert whole(parts, most=3) == body


def test_what_has_no_end_is_read_no_further_than_the_bound() -> None:
    read: list[bytes] = []

    def endless() -> Iterator[bytes]:
        for part in repeat(b"x"):
            read.append(part)
            yield part

    assert (whole(endless(), most=5), len(read)) == (None, 6)


def test_what_trickles_is_left_when_it_is_late() -> None:
    late = iter([False, False, True])

    assert whole(repeat(b"x"), most=1000, late=lambda: next(late)) is None
