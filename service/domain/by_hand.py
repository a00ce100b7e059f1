"""A run that a person played by hand from an exported script: what the script carries, and the journal it wrote.

A journal is lines of JSON. Each ends with a hash over the hash of the line before it, a line feed, and the line's own
text up to `,"hash"`; the first one follows the plan digest. So no line can be changed, left out or put elsewhere unless
all after it are written anew; nothing can be left out at the end, since the last line says `ended`.
"""

import base64
import binascii
import gzip
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from itertools import pairwise
from typing import Any

from service.domain.errors import Conflict, InvalidInput
from service.domain.runbook import ParamValue
from service.domain.script import sha256

#: More bytes of a header or of one stream are not unpacked.
MOST_UNPACKED = 1024 * 1024
#: A journal has at most so many lines.
MOST_LINES = 5000
#: Over the body of a request that brings one.
MOST_CHARACTERS = 900_000

_LINE = re.compile(r'(?P<text>\{.*),"hash":"(?P<hash>[0-9a-f]{64})"\}')
#: A person's name as the script takes it; nobody proves who types.
_NAME = re.compile(r"[A-Za-z0-9._@-]{1,64}")
#: The id of the export, as ids are made, and what each journal adds to it.
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,39}")
_OWN = re.compile(r"-[0-9a-f]{8}")
#: A clock that has lost its time says 1970; to the last moments that have a name nothing can be added.
_YEARS = range(1970, 3000)
_KEEP_IT = "Keep the file as it is, and look who changed it; the node has another copy under /var/lib/unstick/by-hand."


class Event(StrEnum):
    """What a line of a journal tells of."""

    BEGUN = "begun"
    RESUMED = "resumed"
    INTENDED = "intended"
    RESULT = "result"
    GATE = "gate"
    ANSWER = "answer"
    CANCELLED = "cancelled"
    ENDED = "ended"


@dataclass(frozen=True)
class Line:
    """One line of a journal whose hash fits."""

    seq: int
    at: datetime
    boot: str
    event: Event
    members: Mapping[str, Any]
    hash: str

    def word(self, name: str) -> str:
        """Return a member that is text, empty where there is none; InvalidInput."""
        value = self.members.get(name, "")
        if not isinstance(value, str):
            raise self.wrong(f"{name} is no text")
        return value

    def number(self, name: str) -> int | None:
        """Return a member that is a whole number, written as text; InvalidInput."""
        value = self.word(name)
        if not value:
            return None
        if not re.fullmatch(r"[0-9]{1,15}", value):
            raise self.wrong(f"{name} is no number")
        return int(value)

    def moment(self, name: str) -> datetime | None:
        """Return a member that is seconds since 1970, written as text; InvalidInput."""
        value = self.word(name)
        if not value:
            return None
        if not re.fullmatch(r"[0-9]{1,11}(\.[0-9]{1,6})?", value):
            raise self.wrong(f"{name} is no time")
        return datetime.fromtimestamp(float(value), UTC)

    def data(self, name: str) -> bytes:
        """Return a member that is base64; InvalidInput."""
        try:
            return base64.b64decode(self.word(name), validate=True)
        except (binascii.Error, ValueError) as error:
            raise self.wrong(f"{name} is no base64") from error

    def unpacked(self, name: str) -> bytes:
        """Return a member that is packed; InvalidInput."""
        try:
            return unpack(self.data(name)) if self.word(name) else b""
        except InvalidInput as error:
            raise self.wrong(f"{name} cannot be unpacked") from error

    def wrong(self, what: str) -> InvalidInput:
        """Return the refusal that names this line."""
        return InvalidInput(f"Line {self.seq} of the journal ({self.event}): {what}.", _KEEP_IT)


@dataclass(frozen=True)
class Header:
    """What an exported script carries of the plan, so that it can be planned again whatever has changed meanwhile."""

    run_id: str
    runbook: str
    node: str
    #: Attributes of the node, its name and pools among them, as conditions see them.
    attributes: Mapping[str, Any]
    params: Mapping[str, ParamValue]
    digest: str
    source_text: str
    prelude: str
    revision: str
    envelope_sha256: str
    #: What names the installation on whose files it was exported.
    service_id: str
    exported_by: str
    #: In UTC, as ISO 8601.
    exported_at: str
    reason: str = ""

    def packed(self) -> str:
        """Return it as one word: base64 of compressed JSON."""
        text = json.dumps(asdict(self), sort_keys=True, ensure_ascii=False)
        return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()

    @classmethod
    def of(cls, data: bytes) -> "Header":
        """Return the header that was packed; InvalidInput."""
        try:
            given = json.loads(unpack(data))
        except (InvalidInput, ValueError, RecursionError) as error:
            raise InvalidInput("The journal's header cannot be read.", _KEEP_IT) from error
        names = frozenset(cls.__annotations__)
        if not isinstance(given, dict) or set(given) != names:
            raise InvalidInput("The journal's header lacks parts, or has too many.", _KEEP_IT)
        mappings = ("attributes", "params")
        if any(not isinstance(given[name], dict if name in mappings else str) for name in names):
            raise InvalidInput("The journal's header has a part of a wrong kind.", _KEEP_IT)
        if not _RUN.fullmatch(given["run_id"]) or not all(map(_is_storable, _texts(given))):
            raise InvalidInput("The journal's header has signs that no export writes.", _KEEP_IT)
        if not _are_attributes(given["attributes"], node=given["node"]):
            raise InvalidInput("The journal's header has attributes that no node has.", _KEEP_IT)
        return cls(**given)


@dataclass(frozen=True)
class Journal:
    """A journal whose every hash fits."""

    header: Header
    lines: tuple[Line, ...]
    #: The hash of its last line, by which it is known.
    hash: str = field(default="")

    @property
    def begun(self) -> Line:
        """Return its first line."""
        return self.lines[0]

    @property
    def run_id(self) -> str:
        """Return the id of the run: that of the export, and what is of this journal alone."""
        return self.begun.word("run")

    @property
    def persons(self) -> tuple[str, ...]:
        """Return the names that were typed by those who began it or went on with it."""
        wanted = (Event.BEGUN, Event.RESUMED)
        return tuple(dict.fromkeys(line.word("by") for line in self.lines if line.event in wanted))


def read_journal(text: str) -> Journal:
    """Return a journal with every hash looked at.

    Raises InvalidInput with the first line that does not fit, Conflict when the run has not ended.
    """
    if len(text) > MOST_CHARACTERS:
        raise InvalidInput(f"The journal has more than {MOST_CHARACTERS} characters.", "Keep it as a file.")
    rows = text.split("\n")
    whole = rows[:-1] if rows[-1] == "" else rows
    if not whole or whole == [""]:
        raise InvalidInput("The journal is empty.", "Name the file that the exported script has printed.")
    if len(whole) > MOST_LINES:
        raise InvalidInput(f"The journal has more than {MOST_LINES} lines.", "Keep it as a file.")
    lines = _read_lines(whole)
    if lines[0].event is not Event.BEGUN:
        raise lines[0].wrong("a journal begins with begun")
    header = Header.of(lines[0].data("header"))
    _check_order(lines)
    if not _OWN.fullmatch(lines[0].word("run").removeprefix(header.run_id)):
        raise lines[0].wrong("run is not that of its header")
    for name, wanted in (("plan", header.digest), ("node", header.node)):
        if lines[0].word(name) != wanted:
            raise lines[0].wrong(f"{name} is not that of its header")
    if lines[-1].event is not Event.ENDED:
        raise Conflict(
            f"The journal is unfinished: its last line, {lines[-1].seq}, is {lines[-1].event}.",
            "Run the script on the node again: it goes on there, and writes how it ended. Or the end was cut off.",
        )
    return Journal(header, lines, lines[-1].hash)


def _read_lines(rows: list[str]) -> tuple[Line, ...]:
    lines: list[Line] = []
    previous = ""
    for number, row in enumerate(rows, start=1):
        found = _LINE.fullmatch(row)
        if found is None:
            raise InvalidInput(f"Line {number} of the journal is not whole.", _KEEP_IT)
        members = _members(found["text"], number)
        if number == 1:
            previous = str(members.get("plan", ""))
        if sha256(f"{previous}\n{found['text']}") != found["hash"]:
            raise InvalidInput(f"Line {number} of the journal was changed: its hash does not fit.", _KEEP_IT)
        previous = found["hash"]
        lines.append(_line(members, number, previous))
    return tuple(lines)


def _members(text: str, number: int) -> dict[str, Any]:
    try:
        members = json.loads(text + "}")
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"Line {number} of the journal cannot be read.", _KEEP_IT) from error
    if not isinstance(members, dict):
        raise InvalidInput(f"Line {number} of the journal cannot be read.", _KEEP_IT)
    return members


def _line(members: dict[str, Any], number: int, digest: str) -> Line:
    try:
        at = datetime.fromisoformat(str(members.pop("at")))
        seq, boot, event = int(members.pop("seq")), str(members.pop("boot")), Event(members.pop("event"))
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        raise InvalidInput(f"Line {number} of the journal has not what every line has.", _KEEP_IT) from error
    if seq != number or at.tzinfo is None:
        raise InvalidInput(f"Line {number} of the journal says that it is line {seq}.", _KEEP_IT)
    written = all(one.isascii() and one.isprintable() for one in (boot, *_texts(members)))
    if at.year not in _YEARS or not written:
        raise InvalidInput(f"Line {number} of the journal has signs or a time that no script writes.", _KEEP_IT)
    line = Line(seq, at.astimezone(UTC), boot, event, members, digest)
    if any(name in members and members[name] and not _NAME.fullmatch(line.word(name)) for name in ("by", "who")):
        raise line.wrong("it names somebody as no script does")
    return line


def _check_order(lines: tuple[Line, ...]) -> None:
    for earlier, later in pairwise(lines):
        if later.at < earlier.at:
            raise later.wrong("it is older than the line before it")
        if earlier.event is Event.ENDED or later.event is Event.BEGUN:
            raise later.wrong("it stands behind the end, or begins again")


def _texts(value: object) -> Iterator[str]:
    """Yield every text of a JSON value, names among them."""
    match value:
        case str():
            yield value
        case dict():
            for name, one in value.items():
                yield from (name, *_texts(one))
        case list():
            for one in value:
                yield from _texts(one)
        case _:
            pass


def _are_attributes(given: dict[str, Any], *, node: str) -> bool:
    """Whether they are those of this node, as conditions see them: texts, and the names of its pools."""
    pools = given.get("pools", [])
    texts = [value for name, value in given.items() if name != "pools"]
    listed = isinstance(pools, list) and all(isinstance(one, str) for one in pools)
    return listed and all(isinstance(one, str) for one in texts) and given.get("name", node) == node


def _is_storable(text: str) -> bool:
    """Whether every database can hold a text: it has no zero byte and no half of a surrogate pair."""
    return "\0" not in text and not any("\ud800" <= sign <= "\udfff" for sign in text)


def unpack(data: bytes) -> bytes:
    """Return what was compressed, at most `MOST_UNPACKED` bytes; InvalidInput."""
    reader = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        unpacked = reader.decompress(data, MOST_UNPACKED)
    except zlib.error as error:
        raise InvalidInput("It is not compressed.") from error
    if not reader.eof:
        raise InvalidInput("It is cut, or too long.")
    return unpacked
