"""What the scripts of a survey say: parts with a name, an end and words.

Pure; odd text is no part, and never an error.
"""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass

from service.domain.survey import word

#: A Go string in ASCII, as `%+q` prints it; each of its escapes means the same in Python (go.dev/ref/spec, String
#: literals), but for a byte that is no text, which becomes some other sign.
QUOTED = r'"(?:[ !#-\[\]-~]|\\(?:[abfnrtv"\\]|x[0-9a-f]{2}|u[0-9a-f]{4}|U000[0-9a-f]{5}|U0010[0-9a-f]{4}))*"'
_QUOTED = re.compile(QUOTED)
_NAME = re.compile(r"[a-z]+(?:-[0-9]+)?")
#: A script says fewer parts than this.
_MOST_PARTS = 500
#: How a part ends that there was nobody to ask for.
NONE = "none"


@dataclass(frozen=True)
class Said:
    """One part: how its command ended, and its words."""

    end: str
    text: str

    @property
    def good(self) -> bool:
        """Whether the command did what it should."""
        return self.end == "0"

    @property
    def fault(self) -> str:
        """Return why it is not good, as a sentence for people."""
        if self.end in ("124", "137"):
            return f"no answer in time. {word(self.text[-500:])}".strip()
        return word(self.text[-500:]) or f"exit {word(self.end)}"


def read_parts(output: bytes) -> Mapping[str, Said] | None:
    """Return the parts by name; None when they are not all there, or are none."""
    pieces = output.split(b"\0")
    if len(pieces) % 3 != 1 or len(pieces) > _MOST_PARTS * 3 or pieces[-4:] != [b"end", b"0", b"", b""]:
        return None
    texts = [piece.decode("utf-8", "replace") for piece in pieces[:-4]]
    names = texts[0::3]
    if len(set(names)) != len(names) or not all(_NAME.fullmatch(name) for name in names):
        return None
    return {name: Said(end, text) for name, end, text in zip(names, texts[1::3], texts[2::3], strict=True)}


def unquoted(line: str, key: str, *, count: int) -> tuple[str, ...] | None:
    """Return the strings of a line such as `pod "ml" "train-0"`; None when it is no line of so many."""
    if not re.fullmatch(rf"{key}(?: {QUOTED}){{{count}}}", line):
        return None
    return tuple(str(ast.literal_eval(one.group())) for one in _QUOTED.finditer(line))
