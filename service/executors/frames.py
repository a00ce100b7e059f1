"""Reads what the envelope says: bytes in, output and one report out. Pure.

Every line of the envelope's own is `unstick ATTEMPT_ID {json}`. All else (profiles, banners, messages to all users)
is noise: kept for a person, bounded, never interpreted, but for the words of a sudo or a login shell that refused.
"""

import base64
import binascii
import json
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from service.domain.errors import InvalidInput
from service.domain.node import Become, Endpoint
from service.domain.script import Facts, NotStarted, OutputChunk, Report, ReportState, Stream
from service.executors import reasons

#: A frame carries a segment of 64 KiB in base64; a longer line is noise.
LONGEST_LINE = 256 * 1024
NOISE_KEPT = 8 * 1024
TARGETS_LIMIT = 64 * 1024
#: A piece comes from one segment, or from the targets and the byte that tells that there are too many.
LONGEST_PIECE = 64 * 1024 + 1
#: The only ending of a conversation of which the words that came with it prove anything.
SHELL_ENDED = "its shell ended"
#: Beyond what these numbers can be, a frame is noise: the store could not keep it.
_EXIT_CODES = range(256)
_SIGNALS = range(1, 65)
_NUMBERS = range(2**53)

#: For zlib: a gzip header, and the longest window.
_GZIP = 31
_FRAME = re.compile(rb"unstick ([A-Za-z0-9_-]+) (\{.*\})\r?")
_REFUSED_BY_SUDO = re.compile(r"^sudo: |is not in the sudoers file|sudo.*: (No such file|not found)", re.MULTILINE)
_REFUSED_BY_SHELL = re.compile(r"This account is currently not available")


class Conversation:
    """What one conversation with a node has brought so far."""

    def __init__(self, attempt_id: str, endpoint: Endpoint) -> None:
        """Begin without a report."""
        self.report: Report | None = None
        self.frames = 0
        self.noise = b""
        #: Where targets come apart from the report: how many bytes there are, and pieces by their place.
        self.targets_bytes = 0
        self.targets: dict[int, bytes] = {}
        self._attempt_id = attempt_id
        self._endpoint = endpoint
        self._rest = bytearray()
        self._searched = 0

    def feed(self, data: bytes) -> list[OutputChunk]:
        """Take bytes of the node's standard output, cut anywhere; return the output that is complete now."""
        self._rest += data
        chunks = []
        while (end := self._rest.find(b"\n", self._searched)) >= 0:
            line = bytes(self._rest[:end])
            del self._rest[: end + 1]
            self._searched = 0
            chunk = self._take(line)
            if chunk is not None:
                chunks.append(chunk)
        self._searched = len(self._rest)
        if len(self._rest) > LONGEST_LINE:
            self.hear(bytes(self._rest[:NOISE_KEPT]))
            self._rest.clear()
            self._searched = 0
        return chunks

    def hear(self, data: bytes) -> list[OutputChunk]:
        """Keep noise, such as the node's standard error: the first bytes of it. There is never output in it."""
        if len(self.noise) < NOISE_KEPT:
            self.noise = (self.noise + data)[:NOISE_KEPT]
        return []

    def conclude(self, ending: str) -> Report:
        """Return the report; without one, say what the ending of the conversation proves.

        `ending` tells how the conversation ended: SHELL_ENDED, or words such as "the connection was reset".
        """
        if self.report is not None:
            return self.report
        node, said = self._endpoint.name, self._said()
        if self.frames == 0 and ending == SHELL_ENDED:
            if self._endpoint.become is Become.SUDO and _REFUSED_BY_SUDO.search(said):
                return _not_started(NotStarted.SUDO, reasons.sudo(node, said))
            if _REFUSED_BY_SHELL.search(said):
                return _not_started(NotStarted.LOGIN, reasons.login_shell(node, self._endpoint.user))
        return Report(ReportState.LOST, reason=reasons.lost(node, ending, said))

    def _said(self) -> str:
        return (self.noise + bytes(self._rest[:NOISE_KEPT])).decode(errors="replace").strip()

    def _take(self, line: bytes) -> OutputChunk | None:
        match = _FRAME.fullmatch(line)
        if match is None or match[1].decode() != self._attempt_id:
            if line:
                self.hear(line + b"\n")
            return None
        try:
            frame = _Frame(json.loads(match[2]))
            chunk = self._read(frame)
        except (ValueError, RecursionError, InvalidInput):  # deep JSON ends in a RecursionError
            self.hear(line + b"\n")
            return None
        self.frames += 1
        return chunk

    def _read(self, frame: "_Frame") -> OutputChunk | None:
        match frame.word("frame"):
            case "out":
                stream, offset = Stream(frame.word("stream")), frame.number("offset") or 0
                return OutputChunk(self._attempt_id, stream, offset, frame.piece())
            case "targets":
                self.targets[frame.number("offset") or 0] = frame.piece()
            case "state":
                report, targets_bytes = _report(frame, self._endpoint), frame.number("targets_bytes") or 0
                self.report, self.targets_bytes = report, targets_bytes
            case _:
                pass
        return None


@dataclass(frozen=True)
class _Frame:
    """The fields of one frame, each with the type that it must have."""

    fields: Mapping[str, object]

    def __post_init__(self) -> None:
        if not isinstance(self.fields, dict):
            raise InvalidInput("A frame is no object.")

    def word(self, name: str) -> str:
        value = self.fields.get(name, "")
        if not isinstance(value, str):
            raise InvalidInput(f"{name} is no text.")
        return value

    def number(self, name: str, within: range = _NUMBERS) -> int | None:
        value = self.fields.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool):
            raise InvalidInput(f"{name} is no integer.")
        if value not in within:
            raise InvalidInput(f"{name} is out of range.")
        return value

    def flag(self, name: str) -> bool:
        return self.fields.get(name) in (True, "yes")

    def moment(self, name: str) -> datetime | None:
        value = self.fields.get(name)
        if value is None:
            return None
        if not isinstance(value, int | float):
            raise InvalidInput(f"{name} is no time.")
        try:
            return datetime.fromtimestamp(value, UTC)
        except (OverflowError, OSError) as error:
            raise InvalidInput(f"{name} is no time.") from error

    def piece(self) -> bytes:
        """Return the bytes that a frame carries, as they are or compressed."""
        if "gzip" not in self.fields:
            return self.data("data")
        try:
            unpack = zlib.decompressobj(_GZIP)
            unpacked = unpack.decompress(self.data("gzip"), LONGEST_PIECE)
        except zlib.error as error:
            raise InvalidInput("A piece is no gzip.") from error
        if not unpack.eof:
            raise InvalidInput("A piece is too long, or was cut.")
        return unpacked

    def data(self, name: str) -> bytes:
        try:
            return base64.b64decode(self.word(name), validate=True)
        except binascii.Error as error:
            raise InvalidInput(f"{name} is no base64.") from error


def _report(frame: _Frame, endpoint: Endpoint) -> Report:
    match frame.word("state"):
        case "not_started":
            cause = NotStarted(frame.word("reason"))
            return Report(
                ReportState.NOT_STARTED,
                not_started=cause,
                reason=_why_not(cause, frame, endpoint),
                pid=frame.number("pid"),
                wchan=frame.word("wchan") or None,
                boot_id=frame.word("boot_id") or None,
                facts=_facts(frame),
            )
        case "rebooted":
            reason = reasons.rebooted(endpoint.name)
            return Report(
                ReportState.REBOOTED, reason=reason, boot_id=frame.word("boot_id") or None, facts=_facts(frame)
            )
        case "running":
            return _of_script(
                ReportState.RUNNING, frame, reasons.running(endpoint.name, frame.number("pid")), node=endpoint.name
            )
        case "unkillable":
            pid, wchan = frame.number("pid"), frame.word("wchan")
            return _of_script(
                ReportState.UNKILLABLE, frame, reasons.unkillable(endpoint.name, pid, wchan), node=endpoint.name
            )
        case "finished":
            return _of_script(ReportState.FINISHED, frame, reasons.ended(frame.word("ended_by")), node=endpoint.name)
        case "unknown":
            return _of_script(ReportState.LOST, frame, reasons.no_exit_code(endpoint.name), node=endpoint.name)
        case other:
            raise InvalidInput(f"{other} is no state.")


def _of_script(state: ReportState, frame: _Frame, reason: str, *, node: str) -> Report:
    first, *kept_back = frame.word("unconfined").split() or [""]
    if first == "refused" and state is _FINISHED:
        refused = _not_started(NotStarted.UNCONFINED, reasons.not_confined(node, kept_back))
        return replace(refused, boot_id=frame.word("boot_id") or None, facts=_facts(frame))
    targets, left_out = read_targets(frame.data("targets"))
    still_open = [stream.value for stream in Stream if frame.flag(f"{stream}_open")] if state is _FINISHED else []
    loose = reasons.unconfined(frame.word("unconfined").split())
    notes = [reason, reasons.still_open(still_open), reasons.targets_left_out(left_out), loose]
    return Report(
        state,
        reason=" ".join(note for note in notes if note),
        exit_code=frame.number("exit_code", _EXIT_CODES),
        signal=frame.number("signal", _SIGNALS),
        ended_by_us=state is _FINISHED and bool(frame.word("ended_by")),
        pid=frame.number("pid"),
        wchan=frame.word("wchan") or None,
        boot_id=frame.word("boot_id") or None,
        targets=targets,
        stdout_bytes=frame.number("stdout_bytes") or 0,
        stderr_bytes=frame.number("stderr_bytes") or 0,
        truncated=any(frame.flag(f"{stream}_cut") for stream in Stream) or left_out,
        started_at=frame.moment("started"),
        finished_at=frame.moment("finished"),
        facts=_facts(frame),
    )


_FINISHED = ReportState.FINISHED


def read_targets(data: bytes) -> tuple[tuple[str, ...], bool]:
    """Return whole lines, and whether there were more than fit. A byte that is not UTF-8 is shown as \\xHH."""
    left_out = len(data) > TARGETS_LIMIT
    if left_out:
        data = data[: data.rfind(b"\n", 0, TARGETS_LIMIT) + 1]
    lines = data.decode(errors="backslashreplace").split("\n")
    return tuple(line for line in lines if line), left_out


def _facts(frame: _Frame) -> Facts | None:
    clock, uid = frame.moment("clock"), frame.number("uid")
    if clock is None or uid is None:
        return None
    return Facts(
        boot_id=frame.word("boot_id"),
        uid=uid,
        clock=clock,
        pid_namespace=frame.number("pid_namespace") or 0,
        mount_namespace_is_init=frame.flag("mounts_are_init"),
        init_name=frame.word("init"),
    )


def _not_started(cause: NotStarted, reason: str) -> Report:
    return Report(ReportState.NOT_STARTED, not_started=cause, reason=reason)


def _why_not(cause: NotStarted, frame: _Frame, endpoint: Endpoint) -> str:
    node, clock = endpoint.name, frame.moment("clock")
    match cause:
        case NotStarted.TOO_LATE:
            return reasons.too_late(node, clock, frame.moment("not_after"))
        case NotStarted.CLOCK:
            return reasons.clock(node, clock, frame.moment("sent_at"))
        case NotStarted.HELD:
            holder = (frame.word("holder_service"), frame.word("holder_attempt"))
            return reasons.held(node, *holder, pid=frame.number("pid"), wchan=frame.word("wchan"))
        case NotStarted.NO_BASH:
            return reasons.no_bash(node, frame.word("missing"))
        case NotStarted.FOLDER:
            return reasons.folder(node, frame.data("said").decode(errors="replace"))
        case NotStarted.WRONG_VIEW:
            return reasons.wrong_view(endpoint, _facts(frame))
        case NotStarted.OTHER_BOOT | NotStarted.VOID | NotStarted.NO_SPACE:
            return _PLAIN[cause](node)
        case (
            NotStarted.UNREACHABLE
            | NotStarted.HOST_KEY
            | NotStarted.LOGIN
            | NotStarted.SUDO
            | NotStarted.REFUSED
            | NotStarted.UNCONFINED
        ):
            raise InvalidInput("The envelope never says this of itself.")


_PLAIN: Mapping[NotStarted, Callable[[str], str]] = {
    NotStarted.OTHER_BOOT: reasons.other_boot,
    NotStarted.VOID: reasons.void,
    NotStarted.NO_SPACE: reasons.no_space,
}
