"""Text of nodes and persons, and moments, as people are shown them."""

import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

#: Control and format characters, among them a zero-width space (Unicode's general categories).
_UNSEEN_KINDS: Final = frozenset({"Cc", "Cf", "Zl", "Zp", "Zs"})
#: Others that leave no mark: Default_Ignorable_Code_Point of DerivedCoreProperties.txt, and the empty Braille pattern.
_UNSEEN: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0") | frozenset(
    chr(one) for one in (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))
)

_UNITS: Final = ((timedelta(days=1), "d"), (timedelta(hours=1), "h"), (timedelta(minutes=1), "min"))


def shown(text: str) -> str:
    """Return text in which every character that is not shown as itself, tab and line end apart, is escaped.

    Output of a sick node must not move the cursor of the person who looks at it (CWE-150).
    """
    return "".join(one if one.isprintable() or one in "\n\t" else ascii(one)[1:-1] for one in text)


def seen(text: str) -> Iterator[str]:
    """Yield the characters of a text that leave a mark where it is shown."""
    return (one for one in text if one not in _UNSEEN and unicodedata.category(one) not in _UNSEEN_KINDS)


def is_blank(text: str) -> bool:
    """Whether whoever is shown a text sees nothing: a reason of a zero-width space says nothing."""
    return next(seen(text), None) is None


def shown_moment(moment: datetime) -> str:
    """Return a moment as it stands in a sentence: to the second, in UTC."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def shown_age(age: timedelta) -> str:
    """Return how long something lasts or is over, in its largest unit: `12 min`."""
    size, unit = next(((size, unit) for size, unit in _UNITS if age >= size), (timedelta(seconds=1), "s"))
    return f"{max(0, age // size)} {unit}"
