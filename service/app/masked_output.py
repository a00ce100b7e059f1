"""Masks secrets in what a script says before any of it is kept, also one that comes in two pieces."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from service.domain.redaction import mask
from service.domain.script import OutputChunk, Stream

#: A line is waited for to its end, but not beyond this; then all but its end is kept.
_LONGEST_LINE: Final = 8 * 1024
_END_OF_LINE: Final = 1024
#: A word is not cut, unless it is longer than this.
_LONGEST_WORD: Final = 4096
_SPACE: Final = b" \t\r"
#: A private key has many lines.
_LONGEST_KEY: Final = 20 * 1024
_KEY_BEGINS: Final = b"-----BEGIN "
_KEY_ENDS: Final = re.compile(rb"-----END [A-Z ]{0,40}-----")


class MaskedOutput:
    """Gives chunks on, whole lines at a time. Every byte stays at its place."""

    def __init__(self) -> None:
        """Begin with nothing held back."""
        self._held: dict[Stream, OutputChunk] = {}

    def take(self, chunk: OutputChunk) -> Iterator[OutputChunk]:
        """Take one chunk, and yield what may be kept now."""
        held = self._held.pop(chunk.stream, None)
        if held is not None and held.offset + len(held.data) != chunk.offset:
            # It does not go on where the last one ended: a node has sent something again.
            yield _masked(held, len(held.data))
            held = None
        whole = chunk if held is None else replace(held, data=held.data + chunk.data)
        end = _end_of_lines(whole.data)
        if end:
            yield _masked(whole, end)
        if end < len(whole.data):
            self._held[chunk.stream] = replace(whole, offset=whole.offset + end, data=whole.data[end:])

    def rest(self) -> Iterator[OutputChunk]:
        """Yield what was held back: no more will come."""
        for held in self._held.values():
            yield _masked(held, len(held.data))
        self._held = {}


def _masked(chunk: OutputChunk, end: int) -> OutputChunk:
    """Return a chunk up to a place; what stands behind it is looked at too."""
    return replace(chunk, data=mask(chunk.data)[:end])


def _end_of_lines(data: bytes) -> int:
    """Return up to where nothing that comes later can belong to a secret."""
    key = data.rfind(_KEY_BEGINS)
    if key >= 0 and _KEY_ENDS.search(data, key) is None and len(data) - key < _LONGEST_KEY:
        return data.rfind(b"\n", 0, key) + 1
    end = data.rfind(b"\n") + 1
    return end if len(data) - end <= _LONGEST_LINE else _end_of_words(data, len(data) - _END_OF_LINE)


def _end_of_words(data: bytes, most: int) -> int:
    """Return a place before `most` that cuts no word in two: the rest of a secret alone is known by nothing."""
    space = max(data.rfind(bytes((one,)), most - _LONGEST_WORD, most) for one in _SPACE)
    return most if space < 0 else space + 1
