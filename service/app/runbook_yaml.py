"""Reads YAML strictly into plain values that remember their lines.

Only what means the same to every reader is accepted: `true` and `false` are the only booleans, an
integer is decimal, and a word such as `on`, `NO` or `1:30` stays text (YAML 1.2; PyYAML follows
1.1, github.com/yaml/pyyaml/issues/52 and 272). Aliases, anchors, tags, merge keys, directives and
further documents are refused, and size, nodes and depth are bounded.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from service.app.finding import Finding

MAX_BYTES = 256 * 1024
MAX_NODES = 10_000
MAX_DEPTH = 16


@dataclass(frozen=True)
class Bounds:
    """How much a file may hold."""

    size: int = MAX_BYTES
    nodes: int = MAX_NODES
    way_out: str = "Move shell into runbooks/lib/."
    #: What to do about a file in which nothing stands.
    if_empty: str = "Write a document, or remove the file."


OF_A_RUNBOOK = Bounds()

#: Where a value stands: the keys and positions that lead to it.
Where = tuple[str | int, ...]

QUOTE_IT = "Quote it, or write it as a block after `|`."

_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_DECIMAL = re.compile(r"-?(0|[1-9][0-9]{0,15})\.[0-9]{1,15}")
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
# Everything that is not printed, moves the cursor, reverses the direction of reading, or is a line
# break to YAML 1.1 only; and halves of surrogate pairs, which no UTF-8 text can hold.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)


@dataclass(frozen=True)
class Text:
    """How a piece of text was written in the file."""

    #: The line of its first character.
    line: int
    #: `|`, `>`, `'`, `"`, or empty for a plain one.
    style: str
    #: Whether it goes over several lines of the file.
    several_lines: bool
    #: Whether a comment ended it: ` #` cuts a plain one.
    cut: bool


@dataclass(frozen=True)
class Document:
    """The values of one file, and where they stand."""

    value: object
    lines: Mapping[Where, int]
    texts: Mapping[Where, Text]

    def line(self, where: Where) -> int:
        """Return the line of a value, or of what is nearest around it."""
        while where and where not in self.lines:
            where = where[:-1]
        return self.lines.get(where, 1)


def decode(data: bytes, file: str, *, bounds: Bounds = OF_A_RUNBOOK) -> str | Finding:
    """Return the bytes as text with nothing changed (byte order mark and CRLF stay), or what is wrong."""
    if len(data) > bounds.size:
        return _too_big(len(data), file, bounds=bounds)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in data[:4]:
        return Finding(file, 1, "The file is not UTF-8 but looks like UTF-16.", "Save it as UTF-8.")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return Finding(file, line, f"Byte {error.start} is not UTF-8.", "Save the file as UTF-8.")


def read_document(text: str, file: str, *, bounds: Bounds = OF_A_RUNBOOK) -> Document | Finding:
    """Return the values of a YAML text, or the first thing that is wrong with it. Raises nothing."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > bounds.size:
        return _too_big(size, file, bounds=bounds)
    clean = text.removeprefix("\ufeff").replace("\r\n", "\n")
    unseen = _UNSEEN.search(clean)
    if unseen is not None:
        return _unseen(unseen, clean, file=file)
    try:
        return _Composer(clean, file, bounds.nodes, bounds.if_empty).document()
    except _RefusedError as refused:
        return refused.finding
    except yaml.MarkedYAMLError as error:
        return _translate(error, clean, file=file)
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # An escape beyond Unicode or a number too long for int() gets here without a mark.
        return Finding(file, 1, f"This is not YAML: {_one_line(str(error))}.", "Mend the escape or the directive.")


class _RefusedError(Exception):
    """The text is YAML, but not of the kind that is accepted."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding))
        self.finding = finding


@dataclass
class _Composer:
    """Turns the parser's events into values; PyYAML's own composer and constructor are not used."""

    text: str
    file: str
    most_nodes: int
    if_empty: str
    lines: dict[Where, int] = field(default_factory=dict)
    texts: dict[Where, Text] = field(default_factory=dict)
    nodes: int = 0

    def document(self) -> Document:
        """Return the only document of the text."""
        self._rows = self.text.split("\n")
        events: Iterator[Event] = yaml.parse(self.text, Loader=yaml.SafeLoader)
        next(events)
        start = next(events)
        if not isinstance(start, DocumentStartEvent):
            self._refuse(start, "The file is empty.", self.if_empty, line=1)
        if start.version or start.tags:
            self._refuse(start, "The file begins with a YAML directive.", "Remove the line that begins with %.")
        value = self._node(next(events), events, where=())
        next(events)
        more = next(events)
        if not isinstance(more, StreamEndEvent):
            self._refuse(more, "A second document begins here.", "Write one document in each file.")
        if value is None:
            self._refuse(start, "The file is empty.", self.if_empty, line=1)
        return Document(value, self.lines, self.texts)

    def _node(self, event: Event, events: Iterator[Event], *, where: Where) -> object:
        self.nodes += 1
        if self.nodes > self.most_nodes:
            self._refuse(event, f"The file has more than {self.most_nodes} values.", "Split it.")
        if len(where) > MAX_DEPTH:
            self._refuse(event, f"Values are nested more than {MAX_DEPTH} deep.", "Nest less.")
        self.lines.setdefault(where, _line(event))
        if isinstance(event, AliasEvent):
            self._refuse(event, f"`*{event.anchor}` is an alias.", f"Aliases are not accepted. {QUOTE_IT}")
        self._refuse_marks(event)
        if isinstance(event, ScalarEvent):
            return self._scalar(event, where=where)
        if isinstance(event, SequenceStartEvent):
            return self._sequence(events, where=where)
        return self._mapping(events, where=where)

    def _refuse_marks(self, event: Event) -> None:
        anchor, tag = getattr(event, "anchor", None), getattr(event, "tag", None)
        if anchor is not None:
            self._refuse(event, f"`&{anchor}` is an anchor.", f"Anchors are not accepted. {QUOTE_IT}")
        if tag is not None:
            self._refuse(event, f"`{tag}` is a tag.", f"Tags are not accepted. {QUOTE_IT}")

    def _scalar(self, event: ScalarEvent, *, where: Where) -> object:
        value = event.value
        unseen = _UNSEEN.search(value)
        if unseen is not None:
            self._refuse(event, f"The text holds {_name(unseen.group())}.", "Take it out, or write it in the script.")
        (first, _), (last, column) = _position(event.start_mark), _position(event.end_mark)
        style = event.style or ""
        block = style in ("|", ">")
        row = self._rows[last] if last < len(self._rows) else ""
        cut = not style and row[column:].lstrip(" \t").startswith("#")
        self.texts[where] = Text(first + 1 + block, style, block or last > first, cut)
        return value if style else _resolve(value)

    def _sequence(self, events: Iterator[Event], *, where: Where) -> list[object]:
        items: list[object] = []
        while not isinstance(event := next(events), SequenceEndEvent):
            items.append(self._node(event, events, where=(*where, len(items))))
        return items

    def _mapping(self, events: Iterator[Event], *, where: Where) -> dict[str, object]:
        items: dict[str, object] = {}
        while not isinstance(event := next(events), MappingEndEvent):
            key = self._key(event)
            place = (*where, key)
            if key in items:
                self._refuse(event, f"The key `{key}` appears twice, first in line {self.lines[place]}.", "Remove one.")
            self.lines[place] = _line(event)
            items[key] = self._node(next(events), events, where=place)
        return items

    def _key(self, event: Event) -> str:
        self._refuse_marks(event)
        if isinstance(event, AliasEvent):
            self._refuse(event, f"`*{event.anchor}` is an alias.", f"Aliases are not accepted. {QUOTE_IT}")
        if not isinstance(event, ScalarEvent):
            self._refuse(event, "A key is a mapping or a list; braces are plain text only in quotes.", QUOTE_IT)
        if event.value == "<<" and not event.style:
            self._refuse(event, "`<<` merges mappings.", "Merge keys are not accepted: write the values out.")
        key = event.value if event.style else _resolve(event.value)
        if not isinstance(key, str):
            self._refuse(event, f"The key `{event.value}` is not text.", "Quote it.")
        unseen = _UNSEEN.search(event.value)
        if unseen is not None:
            self._refuse(event, f"A key holds {_name(unseen.group())}.", "Take it out.")
        return event.value

    def _refuse(self, event: Event, reason: str, way_out: str, *, line: int | None = None) -> NoReturn:
        raise _RefusedError(Finding(self.file, line or _line(event), reason, way_out))


def _resolve(value: str) -> object:
    """Return what a plain scalar means: text unless it can only be something else."""
    if value in _NULLS:
        return None
    if value in ("true", "false"):
        return value == "true"
    if _INTEGER.fullmatch(value):
        return int(value)
    return float(value) if _DECIMAL.fullmatch(value) else value


def _position(mark: object) -> tuple[int, int]:
    """Return line and column, from 0; the type stubs allow an event without a mark, the parser makes none."""
    return getattr(mark, "line", 0), getattr(mark, "column", 0)


def _line(event: Event) -> int:
    return _position(event.start_mark)[0] + 1


def _name(character: str) -> str:
    known = {"\r": "a carriage return", "\0": "a zero byte", "\u2028": "a line separator"}
    return known.get(character, f"the invisible character U+{ord(character):04X}")


def _too_big(size: int, file: str, *, bounds: Bounds) -> Finding:
    return Finding(file, 1, f"The file has {size} bytes; {bounds.size} are accepted.", bounds.way_out)


def _unseen(match: re.Match[str], text: str, *, file: str) -> Finding:
    line = text.count("\n", 0, match.start()) + 1
    way_out = "Save the file with Unix line ends." if match.group() == "\r" else "Take it out."
    return Finding(file, line, f"The file holds {_name(match.group())}.", way_out)


_KNOWN_PROBLEMS = (
    (r"found character '\\t'", "A tab stands where YAML wants spaces.", "Indent with spaces."),
    (r"found character '(.)'", "A value begins with {0}, which is a sign of YAML.", QUOTE_IT),
    (r"mapping values are not allowed", "There is a second `: ` in this line, or the indentation is off.", QUOTE_IT),
    (r"expected alphabetic or numeric character", "`*` or `&` begins a value.", QUOTE_IT),
    (r"could not find expected ':'", "A key without `:` stands here or in the line before.", "Add `:`, or indent it."),
    (r"expected <block end>", "The indentation does not fit the lines before.", "Indent items of one level alike."),
    (r"found unexpected end of stream", "A quote is opened and never closed.", "Close it."),
    (r"(got|found) '<stream end>'", "A bracket or brace is opened and never closed.", "Close it."),
    (r"expected ',' or '", "A comma is missing here, or a bracket or brace is not closed.", "Mend it."),
    (r"found duplicate .* directive|found undefined tag|found incompatible", "A YAML directive or tag.", "Remove it."),
)


def _translate(error: yaml.MarkedYAMLError, text: str, *, file: str) -> Finding:
    problem = _one_line(error.problem or error.context or str(error))
    open_until_the_end = "end of stream" in problem or "<stream end>" in problem
    marks = (error.context_mark, error.problem_mark) if open_until_the_end else (error.problem_mark, error.context_mark)
    line = next((_position(mark)[0] + 1 for mark in marks if mark is not None), 1)
    line = max(1, min(line, text.count("\n") + 1))
    for pattern, reason, way_out in _KNOWN_PROBLEMS:
        match = re.search(pattern, problem)
        if match:
            return Finding(file, line, reason.format(*match.groups()), way_out)
    return Finding(file, line, f"This is not YAML: {problem}.", QUOTE_IT)


def _one_line(text: str) -> str:
    return " ".join(text.split()).rstrip(".")
