"""Checks that scripts would reach the nodes and look from the right place, by sending one that only reads."""

import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import assert_never

from service.app.look_order import look_order
from service.app.ports import Clock, Executors
from service.domain.node import Endpoint
from service.domain.script import NotStarted, OutputChunk, Report, ReportState, render, say_unconfined, unconfined_of

#: So many nodes are asked at the same time.
AT_ONCE = 32
#: A larger difference of the clocks is told; how far behind a node may be to act at all is the envelope's to say.
MOST_SKEW = timedelta(seconds=10)

_TIMEOUT = timedelta(seconds=30)
#: What the shipped runbooks call on a node beside the shell itself.
_PROGRAMS = "awk cat date grep head ps readlink sed sleep sort stat timeout"
_SCRIPT = render(
    prelude="",
    body=f'for program in {_PROGRAMS}; do command -v "$program" >/dev/null || printf \'%s\\n\' "$program"; done',
    environment={},
)

_AND_WITH_THIS = re.compile(r",? and with `unstick nodes check [^`]*`")
_LOOK_WITH_THIS = re.compile(r" Look with `unstick nodes check [^`]*`\.")


class Part(StrEnum):
    """What is checked, in the order in which one needs the other."""

    REACHED = "reached"
    HOST_KEY = "host key"
    LOGIN = "login"
    ROOT = "root"
    BASH = "bash"
    NAMESPACES = "namespaces"
    FOLDER = "folder"
    CLOCK = "clock"
    CONFINED = "confined"
    PROGRAMS = "programs"


@dataclass(frozen=True)
class NodeCheck:
    """One row: whether a node is ready, and if not, at what it fails and how to mend it."""

    node: str
    #: What was proven.
    passed: tuple[Part, ...]
    #: What failed; what comes after it was not looked at. None: the node is ready.
    failed: Part | None
    #: Why it failed and how to mend it, or what was seen.
    why: str
    boot_id: str | None = None
    #: How far the clock of the node is ahead of ours; None when it did not answer.
    skew: timedelta | None = None
    #: Why a script that only reads is not confined there; empty: it was, or did not run.
    unconfined: str = ""

    @property
    def ready(self) -> bool:
        """Tell whether scripts can be sent to the node."""
        return self.failed is None


@dataclass
class _Missing:
    """Collects the names of programs that the node lacks."""

    data: bytes = b""
    chunks: list[OutputChunk] = field(default_factory=list)

    def __call__(self, chunk: OutputChunk) -> None:
        self.chunks.append(chunk)

    def names(self) -> list[str]:
        parts = sorted(self.chunks, key=lambda chunk: chunk.offset)
        return b"".join(part.data for part in parts).decode("utf-8", "replace").split()


def check_nodes(
    endpoints: Iterable[Endpoint], executors: Executors, *, clock: Clock, service_id: str
) -> Iterator[NodeCheck]:
    """Yield one row for each endpoint, in their order, as soon as each is known. Nothing is changed on a node."""
    check = partial(_check, executors=executors, clock=clock, service_id=service_id)
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="check-node") as threads:
        yield from threads.map(check, endpoints)


def _check(endpoint: Endpoint, *, executors: Executors, clock: Clock, service_id: str) -> NodeCheck:
    missing = _Missing()
    order = look_order(
        endpoint,
        _SCRIPT,
        clock,
        run_id="nodes-check",
        step="check",
        timeout=_TIMEOUT,
        valid_for=timedelta(hours=12),
        service_id=service_id,
    )
    report = executors.of(endpoint).start(order, missing)
    return _judge(endpoint, report, missing.names(), sent_at=order.sent_at, answered_at=clock.now())


def _judge(
    endpoint: Endpoint, report: Report, missing: list[str], *, sent_at: datetime, answered_at: datetime
) -> NodeCheck:
    skew = _skew(report, sent_at, answered_at)
    failed, why = _fault(endpoint, report, missing, skew=skew)
    why = _without_this(why)
    unconfined = endpoint.unconfined or unconfined_of(report.reason)
    if failed is None and unconfined:
        why = f"{why}. {say_unconfined(unconfined)}"
    parts = list(Part)
    passed = [one for one in parts[: None if failed is None else parts.index(failed)] if not _loose(one, unconfined)]
    boot_id = report.boot_id or (report.facts.boot_id if report.facts else None)
    return NodeCheck(endpoint.name, tuple(passed), failed, why, boot_id, skew, unconfined)


def _loose(part: Part, unconfined: str) -> bool:
    return part is Part.CONFINED and bool(unconfined)


def _without_this(why: str) -> str:
    """Return a reason whose way out is not the check itself: who reads this has typed it."""
    return _LOOK_WITH_THIS.sub(" See whether it is on, and is what the inventory says.", _AND_WITH_THIS.sub("", why))


def _fault(
    endpoint: Endpoint, report: Report, missing: list[str], *, skew: timedelta | None
) -> tuple[Part | None, str]:
    if report.state is ReportState.NOT_STARTED:
        return _part_of(report.not_started), report.reason
    if report.state is not ReportState.FINISHED or report.facts is None:
        return Part.REACHED, report.reason
    if report.facts.uid != 0:
        return Part.ROOT, (
            f"Scripts on {endpoint.name} run as uid {report.facts.uid} and not as root. "
            "Use `user: root`, or `become: sudo`; for `executor: local` run unstick as root."
        )
    if skew is not None and abs(skew) > MOST_SKEW:
        ahead = "ahead of" if skew > timedelta(0) else "behind"
        return Part.CLOCK, (
            f"The clock of {endpoint.name} is {abs(skew).total_seconds():.0f} s {ahead} ours. "
            "Set it (`chronyc makestep`, or `timedatectl`), or set ours."
        )
    if missing or report.exit_code != 0:
        return Part.PROGRAMS, f"{endpoint.name} lacks {', '.join(missing) or 'programs'}. Install them there."
    return None, f"uid 0, PID 1 is {report.facts.init_name}, view {endpoint.view}"


def _skew(report: Report, sent_at: datetime, answered_at: datetime) -> timedelta | None:
    """Return by how much the node's clock must be wrong: nothing while it lies between sending and answer."""
    if report.facts is None:
        return None
    if report.facts.clock < sent_at:
        return report.facts.clock - sent_at
    return max(timedelta(0), report.facts.clock - answered_at)


def _part_of(cause: NotStarted | None) -> Part:
    match cause:
        case NotStarted.HOST_KEY:
            return Part.HOST_KEY
        case NotStarted.LOGIN:
            return Part.LOGIN
        case NotStarted.SUDO:
            return Part.ROOT
        case NotStarted.NO_BASH:
            return Part.BASH
        case NotStarted.WRONG_VIEW:
            return Part.NAMESPACES
        case NotStarted.UNCONFINED:
            return Part.CONFINED
        case NotStarted.NO_SPACE | NotStarted.FOLDER:
            return Part.FOLDER
        case NotStarted.CLOCK | NotStarted.TOO_LATE:
            return Part.CLOCK
        case (
            NotStarted.UNREACHABLE
            | NotStarted.REFUSED
            | NotStarted.OTHER_BOOT
            | NotStarted.HELD
            | NotStarted.VOID
            | None
        ):
            return Part.REACHED
        case _:
            assert_never(cause)
