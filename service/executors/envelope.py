"""What is sent to a machine: the envelope with its settings on standard input, and one constant command line.

Nothing of an order stands in a command line, where every user of the machine could read it.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files

from service.domain.errors import BrokenRule
from service.domain.node import Become, Confine, Endpoint
from service.domain.script import AttemptRef, ScriptOrder, Stream

#: The watchdog needs up to 12 s to end a script after its deadline; then the answer is on its way.
SLACK_SECONDS = 20

#: Programs of the node that a bare image may lack.
_PROGRAMS = "bash setsid env mkdir flock base64 dd"

# Every byte that is kept as it is between single quotes; all others become \xHH, so that quotes, backslashes,
# line ends and bytes of any encoding arrive unchanged whatever shell reads the text.
_PLAIN = re.compile(rb"[^A-Za-z0-9 _.,:;@%+=/(){}\[\]<>|&$\"#!?*~^`-]")
_IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")

# The first line of the input names the attempt, so that a shell without bash can answer for it. `read -N` takes the
# rest in large reads: a bash that reads commands from a pipe makes one system call for each byte. \042 is a quote.
_LOADER = (
    "read -r _ id; "
    f"for program in {_PROGRAMS}; do "
    "command -v $program >/dev/null 2>&1 || "
    '{ printf "\\nunstick %s '
    "{\\042frame\\042:\\042state\\042,\\042state\\042:\\042not_started\\042,"
    '\\042reason\\042:\\042no_bash\\042,\\042missing\\042:\\042%s\\042}\\n" "$id" "$program"; exit 0; }; '
    "done; "
    'exec env -i PATH="$PATH" HOME="$HOME" SHELL=/bin/sh setsid -w '
    'bash -p -c "IFS= read -r -N 9999999 envelope; eval \\"\\$envelope\\""'
)


@dataclass(frozen=True)
class OneAnswer:
    """What a transport asks for that brings one answer, at its end, and cuts it."""

    #: The node answers after so many seconds at the latest, and is asked again.
    wait: int
    #: So many characters of an answer arrive for certain.
    limit: int
    #: Bytes of the targets that we hold already.
    targets_at: int = 0


def command_line(endpoint: Endpoint) -> str:
    """Return the command line that reads an envelope on its standard input; any login shell understands it."""
    *words, loader = arguments(endpoint)
    return f"exec {' '.join(words)} '{loader}'"


def arguments(endpoint: Endpoint) -> list[str]:
    """Return the same as a list of arguments, for a transport that needs no shell."""
    match endpoint.become:
        case Become.NONE:
            return ["sh", "-c", _LOADER]
        case Become.SUDO:
            # LC_ALL: a refusal of sudo is told by its words.
            return ["env", "LC_ALL=C", "sudo", "-n", "sh", "-c", _LOADER]


def by_hand_player() -> str:
    """Return the shell program that plays an exported plan on a node."""
    return files("service.executors").joinpath("by_hand.sh").read_text()


def loader() -> str:
    """Return the program for `sh -c` that reads an envelope on its standard input."""
    return _LOADER


def for_start(order: ScriptOrder, within: OneAnswer | None = None) -> bytes:
    """Return the bytes that start a script once; BrokenRule when an id or a target cannot be sent."""
    return _envelope(order.attempt_id, _settings(order.attempt_id, _start(order, within)))


def for_starts(orders: Mapping[str, ScriptOrder], within: OneAnswer) -> bytes:
    """Return the bytes that start a script on several machines, each its own.

    Each order stands under a word that the shell variable `machine` has there. Whoever sends it says both in front:
    a line `# ATTEMPT_ID`, and `machine=...`.
    """
    lines = [b"case $machine in"]
    for machine, order in orders.items():
        lines += [b"%s)" % _word(machine).encode(), *_settings(order.attempt_id, _start(order, within)), b";;"]
    return _assemble([*lines, b"esac"])


def for_settle(attempt: AttemptRef, within: OneAnswer | None = None) -> bytes:
    """Return the bytes that ask how an attempt stands."""
    return _ask("settle", attempt, within=within)


def for_stop(attempt: AttemptRef, within: OneAnswer | None = None) -> bytes:
    """Return the bytes that end the script of an attempt."""
    return _ask("stop", attempt, within=within)


def start_bound(order: ScriptOrder) -> int:
    """Return after how many seconds the node answers a start, whatever has become of the script."""
    return math.ceil(order.timeout.total_seconds()) + SLACK_SECONDS


def _start(order: ScriptOrder, within: OneAnswer | None) -> dict[str, str]:
    _refuse_line_breaks(order.targets)
    return {
        "verb": "start",
        "run": order.run_id,
        "step": order.step,
        "service": _word(order.service_id),
        "expected_boot": order.boot_id or "",
        "first_boot": order.first_boot_id or "",
        "last_boot": order.last_boot_id or "",
        "resend": _flag(order.resend),
        "acting": "acting" if order.acting else "",
        "path": order.endpoint.path,
        "view": order.endpoint.view.value,
        **_confine(order),
        "sent_at": _seconds(order.sent_at),
        "not_after": _seconds(order.not_after),
        "timeout": str(max(1, math.ceil(order.timeout.total_seconds()))),
        "wait": str(start_bound(order)),
        **_offsets(order),
        **_bounds(within),
        "targets": "".join(f"{target}\n" for target in order.targets),
        "script": order.text,
    }


def _confine(order: ScriptOrder) -> dict[str, str]:
    if order.acting or order.endpoint.confine is Confine.OFF:
        return {}
    return {
        "confine": order.endpoint.confine.value,
        "keeps_user": _flag(order.endpoint.keeps_user),
        "reads": " ".join(order.reads),
    }


def _ask(verb: str, attempt: AttemptRef, *, within: OneAnswer | None) -> bytes:
    settings = {
        "verb": verb,
        "expected_boot": attempt.boot_id or "",
        "view": attempt.endpoint.view.value,
        "wait": str(max(0, math.ceil(attempt.wait.total_seconds()))),
        **_offsets(attempt),
        **_bounds(within),
    }
    return _envelope(attempt.attempt_id, _settings(attempt.attempt_id, settings))


def _bounds(within: OneAnswer | None) -> dict[str, str]:
    if within is None:
        return {}
    return {"wait": str(within.wait), "limit": str(within.limit), "targets_at": str(within.targets_at)}


def _settings(attempt_id: str, settings: Mapping[str, str]) -> list[bytes]:
    if not _IDENTIFIER.fullmatch(attempt_id):
        raise BrokenRule(f"The attempt id {attempt_id!r} is no folder name.")
    lines = [b"setting %s '%s'" % (name.encode(), _escape(value)) for name, value in settings.items() if value]
    return [b"setting attempt '%s'" % attempt_id.encode(), *lines]


def _envelope(attempt_id: str, settings: list[bytes]) -> bytes:
    return b"# %s\n%s" % (attempt_id.encode(), _assemble(settings))


def _assemble(lines: list[bytes]) -> bytes:
    confines = any(line.startswith(b"setting confine ") for line in lines)
    return b"\n".join([(node_runner() if confines else _plain_runner()).rstrip(b"\n"), *lines, b"main complete", b""])


@cache
def node_runner() -> bytes:
    """Return the envelope as every transport sends it and every plan digest covers it: comments left out.

    What confines a script comes last, and goes only where one is confined.
    """
    # A program in Python stands in it: there blanks at the beginning of a line have a meaning.
    lines = files("service.executors").joinpath("confine.sh").read_bytes().splitlines()
    return _plain_runner() + _without_comments([line.rstrip() for line in lines])


@cache
def _plain_runner() -> bytes:
    lines = files("service.executors").joinpath("node_runner.sh").read_bytes().splitlines()
    return _without_comments([line.strip() for line in lines])


def _without_comments(lines: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines if line and not line.lstrip().startswith(b"#"))


def _offsets(holder: ScriptOrder | AttemptRef) -> dict[str, str]:
    return {f"{stream}_at": str(holder.offsets.get(stream, 0)) for stream in Stream}


def _escape(value: str) -> bytes:
    return _PLAIN.sub(lambda byte: b"\\x%02x" % byte.group()[0], value.encode(errors="surrogateescape"))


def _seconds(moment: datetime) -> str:
    return str(math.floor(moment.timestamp()))


def _flag(value: bool) -> str:
    return "yes" if value else ""


def _word(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.:@-]", "_", text)


def _refuse_line_breaks(targets: tuple[str, ...]) -> None:
    for target in targets:
        if "\n" in target or "\0" in target:
            raise BrokenRule(f"The target {target!r} is not one line.")
