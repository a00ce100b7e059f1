"""Whether two names are of one person: what people and login services write differently is not a second person."""

import unicodedata
from collections.abc import Iterable
from itertools import groupby
from typing import Final

from service.domain.shown_text import seen

#: Letters of these look like each other, capitals above all, as Unicode's confusables.txt lists them (UTS 39).
_ALIKE: Final = frozenset({"LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "CHEROKEE", "COPTIC"})


def person_key(name: str) -> str:
    """Return a name in the form in which persons are compared: without letter case, width, unseen signs and spaces.

    Compatibility forms are folded as Unicode says (UAX 15, NFKC; case folding by the standard, 3.13, D145).
    """
    words = ("".join(seen(word)) for word in unicodedata.normalize("NFKC", name).split())
    return " ".join(word for word in (unicodedata.normalize("NFKC", word.casefold()) for word in words) if word)


def scripts_that_mix(name: str) -> tuple[str, ...]:
    """Return the scripts that a word of a name mixes though their letters look alike; none in most names.

    With a Cyrillic a, `ann` is somebody else to a program and nobody else to whoever reads it.
    """
    for is_letter, letters in groupby(unicodedata.normalize("NFKC", name), str.isalpha):
        found = {unicodedata.name(one, "").partition(" ")[0] for one in letters} & _ALIKE if is_letter else set()
        if len(found) > 1:
            return tuple(sorted(found))
    return ()


def is_among(name: str, others: Iterable[str]) -> bool:
    """Whether a person is one of these."""
    key = person_key(name)
    return any(person_key(other) == key for other in others)
