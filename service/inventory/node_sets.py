"""Node sets: `gpu[01-32]` stands for thirty-two names.

The form is that of Slurm and ClusterShell: ranges and numbers in brackets, leading zeros kept, several
brackets multiplied.
"""

import itertools
import re
from collections.abc import Iterator

#: A slip such as [1-99999999] must not fill the memory.
MOST_NAMES = 10_000

NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
_PIECE = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


def is_set(pattern: str) -> bool:
    """Tell whether a name stands for several."""
    return "[" in pattern or "]" in pattern


def expand(pattern: str) -> tuple[str, ...]:
    """Return the names that a pattern stands for, in order; ValueError says what is wrong with it."""
    pieces = list(_PIECE.finditer(pattern))
    if "".join(piece.group() for piece in pieces) != pattern or not pieces:
        raise ValueError(f"`{pattern}` has a bracket that does not close.")
    choices = [list(_numbers(piece.group(1))) if piece.group(2) is None else [piece.group(2)] for piece in pieces]
    count = 1
    for choice in choices:
        count *= len(choice)
    if count > MOST_NAMES:
        raise ValueError(f"`{pattern}` stands for {count} names; {MOST_NAMES} are accepted.")
    names = tuple("".join(parts) for parts in itertools.product(*choices))
    for name in names:
        if not NAME.fullmatch(name):
            raise ValueError(f"`{name}` is no name of a machine: letters, digits, `.`, `_` and `-` are.")
    if len(set(names)) != len(names):
        raise ValueError(f"`{pattern}` names the same machine twice.")
    return names


def _numbers(text: str) -> Iterator[str]:
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"`[{text}]` is no range; write `[01-32]` or `[1,3,5-8]`.")
        first, last = match.group(1), match.group(2) or match.group(1)
        if int(last) < int(first):
            raise ValueError(f"`[{text}]` runs backwards.")
        if int(last) - int(first) >= MOST_NAMES:
            raise ValueError(f"`[{text}]` stands for more than {MOST_NAMES} names.")
        yield from (str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))
