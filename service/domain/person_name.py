"""Whether two names are of one person: what people and login services write differently is not a second person."""

import unicodedata
from collections.abc import Iterable

#: Format characters (Unicode's general category Cf), such as a zero-width space: nobody sees them.
_UNSEEN = "Cf"


def person_key(name: str) -> str:
    """Return a name in the form in which persons are compared: without letter case, width, unseen signs and spaces.

    Compatibility forms are folded as Unicode says (UAX 15, NFKC; case folding by the standard, 3.13, D145).
    """
    seen = "".join(one for one in unicodedata.normalize("NFKC", name) if unicodedata.category(one) != _UNSEEN)
    return " ".join(unicodedata.normalize("NFKC", seen.casefold()).split())


def is_among(name: str, others: Iterable[str]) -> bool:
    """Whether a person is one of these."""
    key = person_key(name)
    return any(person_key(other) == key for other in others)
