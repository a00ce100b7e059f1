"""One script on its way to one machine, and what is known of it afterwards.

The words here are those of the envelope (`executors/node_runner.sh`): an order asks the node to
start a script once, a report says how the attempt stands.
"""

import hashlib
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from service.domain.node import Endpoint

PREAMBLE = "set -euo pipefail"


class ScriptKind(StrEnum):
    """The three scripts of a step."""

    CHECK = "check"
    RUN = "run"
    VERIFY = "verify"


class Reads(StrEnum):
    """What a confined script may talk to although whoever talks to it may also act by it."""

    #: The sockets of containerd and CRI-O.
    CONTAINERS = "containers"


class Stream(StrEnum):
    """The two output streams of a script."""

    STDOUT = "stdout"
    STDERR = "stderr"


class ReportState(StrEnum):
    """How an attempt stands, as far as anybody knows."""

    #: The script was started and has not ended.
    RUNNING = "running"
    #: The script has ended; exit code or signal is known.
    FINISHED = "finished"
    #: The script got SIGKILL and is still there (state D).
    UNKILLABLE = "unkillable"
    #: The script did not run and never will for this attempt.
    NOT_STARTED = "not_started"
    #: The node booted since the order was given; what the script did is not known.
    REBOOTED = "rebooted"
    #: The link was lost, or nothing answers: the script may have run. Ask again with `settle`.
    LOST = "lost"


class NotStarted(StrEnum):
    """Why a script did not run. Each is proof that nothing of it was executed."""

    OTHER_BOOT = "other_boot"
    TOO_LATE = "too_late"
    HELD = "held"
    VOID = "void"
    UNREACHABLE = "unreachable"
    HOST_KEY = "host_key"
    LOGIN = "login"
    SUDO = "sudo"
    NO_BASH = "no_bash"
    NO_SPACE = "no_space"
    WRONG_VIEW = "wrong_view"
    CLOCK = "clock"
    FOLDER = "folder"
    REFUSED = "refused"
    #: It could not be confined, where it must be.
    UNCONFINED = "unconfined"


@dataclass(frozen=True)
class ScriptOrder:
    """All that a machine is told to start one script, once."""

    attempt_id: str
    run_id: str
    step: str
    kind: ScriptKind
    endpoint: Endpoint
    #: The rendered script, byte for byte what the plan digest covers.
    text: str
    #: What `$UNSTICK_TARGETS` holds when the script starts, without a final newline.
    targets: tuple[str, ...]
    #: Whether it changes the node: it then needs `boot_id`, and holds the acting lock.
    acting: bool
    #: What it may talk to although it is confined.
    reads: tuple[Reads, ...] = field(default=(), kw_only=True)
    #: After this long the watchdog on the node ends the script.
    timeout: timedelta
    #: The node refuses to start the script after this moment.
    not_after: datetime
    #: What the service believes the time is, so that the node can tell a wrong clock.
    sent_at: datetime
    #: Names this installation in the acting lock.
    service_id: str
    #: The boot that the last look saw; required for acting scripts, else None.
    boot_id: str | None = None
    #: `$UNSTICK_BOOT_ID`: the boot that the first look of this node run saw.
    first_boot_id: str | None = None
    #: `$UNSTICK_LAST_BOOT_ID`: the boot that the node's last answer in this node run came from.
    last_boot_id: str | None = None
    #: Whether it belongs to a dry run: an acting order then never leaves.
    dry_run: bool = False
    #: Whether an earlier order of this attempt may have arrived. On another boot the node then
    #: answers `rebooted` and not `not_started`: it cannot know what ran before.
    resend: bool = False
    #: Bytes of each stream that we hold already.
    offsets: Mapping[Stream, int] = field(default_factory=dict)


@dataclass(frozen=True)
class AttemptRef:
    """An attempt that may be on a machine, and what we hold of it."""

    attempt_id: str
    endpoint: Endpoint
    #: The boot that the order was bound to, or that the last look saw.
    boot_id: str | None
    #: Bytes of each stream that we hold already.
    offsets: Mapping[Stream, int] = field(default_factory=dict)
    #: How long to wait for the end before answering `running`.
    wait: timedelta = timedelta(seconds=20)


@dataclass(frozen=True)
class OutputChunk:
    """Some bytes of one stream, at their place in it."""

    attempt_id: str
    stream: Stream
    offset: int
    data: bytes


@dataclass(frozen=True)
class Facts:
    """What the envelope saw of the place in which it runs."""

    boot_id: str
    uid: int
    clock: datetime
    pid_namespace: int
    mount_namespace_is_init: bool
    init_name: str


@dataclass(frozen=True)
class Report:
    """How one attempt stands."""

    state: ReportState
    #: Why not started; None in every other state.
    not_started: NotStarted | None = None
    #: One sentence for a person: what happened, and what to do about it.
    reason: str = ""
    exit_code: int | None = None
    #: The number of the signal that ended the script.
    signal: int | None = None
    #: True when the watchdog or a stop ended the script, and it is proven dead.
    ended_by_us: bool = False
    pid: int | None = None
    wchan: str | None = None
    boot_id: str | None = None
    #: Lines that the script left in `$UNSTICK_TARGETS`.
    targets: tuple[str, ...] = ()
    #: Bytes that the script wrote, also those that were dropped.
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    truncated: bool = False
    started_at: datetime | None = None
    finished_at: datetime | None = None
    facts: Facts | None = None


#: How a report says, at its end, what did not keep a script that only reads from touching the machine.
_UNCONFINED = "Unconfined: "


def say_unconfined(why: str) -> str:
    """Return the sentence with which a report ends whose script was not confined."""
    return f"{_UNCONFINED}{why}."


def unconfined_of(reason: str) -> str:
    """Return what a report's reason says of it; empty: it was confined, as far as is known."""
    return reason.partition(_UNCONFINED)[2].removesuffix(".")


def render(*, prelude: str, body: str, environment: Mapping[str, str]) -> str:
    """Return the script text: `set -euo pipefail`, the exports, the prelude, the body."""
    exports = [f"export {name}={shell_word(value)}" for name, value in sorted(environment.items())]
    parts = [PREAMBLE, *exports, prelude.rstrip("\n"), body.rstrip("\n")]
    return "\n".join(part for part in parts if part) + "\n"


def shell_word(value: str) -> str:
    """Return a value as one word of a shell. Nothing else in the program quotes a value that a script is given."""
    return shlex.quote(value)


def sha256(text: str | bytes) -> str:
    """Return the SHA-256 of a text (as UTF-8) or of bytes, in hexadecimal."""
    data = text.encode() if isinstance(text, str) else text
    return hashlib.sha256(data).hexdigest()
