"""What is a secret by its very value, or by a pattern of the house's own: masked wherever text is kept or shown.

There is one for the process, as there is one log: a secret that one part of the service has read must not come out
through another. Values stand in memory alone, the longest first, also as a URL and as JSON write them.
"""

import json
from typing import Final
from urllib.parse import quote, quote_plus, urlsplit

from service.domain.pattern import masked

#: A shorter value may be a word of any text; it is known by its form alone.
SHORTEST: Final = 8
#: In an address a shorter part may be the name of a path.
_SHORTEST_PART: Final = 16
#: Of values, and of lines of keys, older ones than so many are forgotten: each text is searched for all of them.
_MOST: Final = 1000


class KnownSecrets:
    """Safe for many threads: what is searched for is replaced as a whole."""

    def __init__(self) -> None:
        """Begin with nothing known."""
        self._values: dict[str, None] = {}
        self._lines: dict[str, None] = {}
        self._sought: tuple[str, ...] = ()
        self._sought_bytes: tuple[bytes, ...] = ()
        self._patterns: tuple[str, ...] = ()

    def learn(self, *values: str) -> None:
        """Take values that no text may show from now on; those of fewer than 8 characters are not taken."""
        self._take(self._values, values)

    def learn_key(self, *lines: str) -> None:
        """Take the lines of a key; keys come and go, and no other secret is forgotten for their many lines."""
        self._take(self._lines, lines)

    def _take(self, kept: dict[str, None], values: tuple[str, ...]) -> None:
        new = [value for value in values if len(value) >= SHORTEST and value not in self._sought]
        if not new:
            return
        kept |= dict.fromkeys(new)
        for oldest in list(kept)[:-_MOST]:
            kept.pop(oldest, None)
        forms = {form for value in (*self._values, *self._lines) for form in _forms(value)}
        self._sought = tuple(sorted(forms, key=lambda form: (-len(form), form)))
        self._sought_bytes = tuple(form.encode("utf-8", "surrogatepass") for form in self._sought)

    def learn_address(self, url: str) -> None:
        """Take an address that is a secret: whole, and each long part of it, as services show them."""
        try:
            parts = urlsplit(url)
            words = [parts.username or "", parts.password or "", *parts.netloc.split(":"), *parts.path.split("/")]
        except ValueError:
            words = []
        else:
            words += [pair.partition("=")[2] for pair in parts.query.split("&")]
        self.learn(url, *(word for word in words if len(word) >= _SHORTEST_PART))

    def look_for(self, patterns: tuple[str, ...]) -> None:
        """Mask what these expressions of RE2's find, instead of those of before."""
        self._patterns = patterns

    def forget(self) -> None:
        """Begin anew."""
        self.__init__()  # type: ignore[misc]

    def masked(self, text: bytes, instead: bytes | None) -> bytes:
        """Return a text with `instead` for each secret; None: as many stars as it has bytes, line ends kept."""
        for known in self._sought_bytes:
            if known in text:
                text = text.replace(known, instead if instead is not None else b"*" * len(known))
        for pattern in self._patterns:
            text = masked(pattern, text, instead)
        return text

    def surely_not_in(self, text: str) -> bool:
        """Whether nothing that is masked stands in a text, nor in any part of it; False also where that is not sure."""
        if self._patterns:
            # One may find something in a part alone, by its beginning or end.
            return False
        data = text.encode("utf-8", "surrogatepass")
        return not any(known in data for known in self._sought_bytes)

    @property
    def knows_nothing(self) -> bool:
        """Whether there is nothing to look for."""
        return not self._sought and not self._patterns


#: The one of this process.
KNOWN: Final = KnownSecrets()


def _forms(value: str) -> set[str]:
    return {
        value,
        quote(value, safe="", errors="replace"),
        quote_plus(value, errors="replace"),
        json.dumps(value)[1:-1],
    }
