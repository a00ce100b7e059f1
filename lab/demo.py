"""The demo: `python -m lab.demo` (or `make demo`) makes a node really stuck and lets two persons cure it.

| variable | |
|---|---|
| YES=1 | installs what is missing without asking |
| TIER=1, 2 or 3 | shows it this way and in no other |
| EXECUTOR=ssh or ssm | shows it the first way and in no other, the node reached by this executor |
| KEEP=1 | leaves the service and the node up; `make demo-down` ends them |

Exits 0 when all was as it must be, 1 when a step failed, 2 when it cannot be shown that way here.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

from lab import demo_ways, leftovers, network, rootfs
from lab.demo_stage import UNSTICK, Failed, Stage
from lab.demo_stories import CURE_STEPS, LOOK_STEPS, NODE, SSM_STEPS, cure, look
from lab.demo_ways import Obstacle, Way
from lab.demo_words import BOLD, GREEN, RED, YELLOW, Words
from lab.nodes import Node
from lab.private import PrivateMounts

KEPT = "kept.json"
LOG_LINES = 12
USAGE = "usage: [YES=1] [KEEP=1] [TIER=1|2|3] [EXECUTOR=ssh|ssm] python -m lab.demo, or python -m lab.demo down"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: What making or showing something ends with where the machine does not play along.
TROUBLE = (Failed, OSError, RuntimeError, ValueError, subprocess.SubprocessError)


class Stopped(BaseException):
    """The person, or the system, has ended the demo."""


def main(given: Sequence[str] | None = None) -> int:
    """Run the demo, or with `down` end what an earlier one has kept."""
    arguments = sys.argv[1:] if given is None else list(given)
    words = Words()
    if arguments == ["down"]:
        return down(words)
    executor = os.environ.get("EXECUTOR") or None
    tier = os.environ.get("TIER") or ("1" if executor else None)
    if arguments or tier not in (None, "1", "2", "3") or executor not in (None, "ssh", "ssm"):
        words.line(USAGE, indent="")
        return 2
    if executor and tier != "1":
        words.line("usage: EXECUTOR needs a booted node, which is TIER=1", indent="")
        return 2
    try:
        return _show(words, Way(int(tier)) if tier else None, environment=os.environ)
    except Stopped:
        words.line("Stopped, and everything taken down.", indent="")
        return 130


def down(words: Words) -> int:
    """End what KEEP=1 has left, and nothing else."""
    names = {name for file in leftovers.run_folder().glob(f"demo-*/{KEPT}") for name in json.loads(file.read_text())}
    gone = leftovers.undo_where(lambda record: record.owner is None and record.name in names)
    if os.geteuid() == 0:
        network.drop_unused_bridge()
    words.line("Everything is taken down." if gone else "Nothing was kept.", indent="")
    return 0


def _show(words: Words, forced: Way | None, *, environment: Mapping[str, str]) -> int:
    """Take the best way that is open; when it turns out to be closed, the next."""
    _listen()
    closed = demo_ways.obstacles()
    open_ways = [way for way in Way if way not in closed]
    ways = [forced] if forced else open_ways
    titles = demo_ways.titles(environment.get("EXECUTOR"))
    _announce(words, closed, titles=titles, taken=ways[0] if ways else None)
    for way in ways:
        reason = closed.get(way)
        if reason is None:
            try:
                return _play(words, way, environment=environment)
            except Obstacle as obstacle:
                reason = str(obstacle)
        words.line()
        words.say(f"It cannot be {titles[way]}: {reason}.", style=YELLOW)
        if not forced and way is not ways[-1]:
            words.line("So the next best way is taken.", indent="")
    words.line(
        "Without TIER and EXECUTOR the next best way is taken." if forced else "There is no other way.", indent=""
    )
    return 2


def _announce(words: Words, closed: Mapping[Way, str], *, titles: Mapping[Way, str], taken: Way | None) -> None:
    words.line("unstick: a stuck node is found, cured, proven cured, and recorded.", style=BOLD, indent="")
    words.line()
    words.line("Three ways to show it, best first (TIER=1, 2 or 3 chooses one):", indent="")
    for way in Way:
        note = f" ({closed[way]})" if way in closed else ""
        arrow = "->" if way is taken else "  "
        words.line(f" {arrow} {way}  {titles[way]}{note}", style=BOLD if way is taken else "", indent="")


def _play(words: Words, way: Way, *, environment: Mapping[str, str]) -> int:
    """Tell the story in one way and take everything down again; Obstacle when its place cannot be made."""
    _listen()
    begun, stack, made, kept = time.monotonic(), ExitStack(), False, False
    try:
        place = _make_place(words, stack, way=way, environment=environment)
        made = True
        stage = stack.enter_context(Stage(words))
        if not _tell(words, stack, stage=stage, place=place, by_ssm=_by_ssm(environment)):
            return 1
        kept = environment.get("KEEP") == "1"
        if kept:
            _keep(words, stage)
    finally:
        # From here on a signal would only leave something behind.
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        if made and not kept:
            words.line()
            with words.waiting("taking everything down"):
                stack.close()
    done = "Nothing was changed" if way is Way.LOOK else "Stuck, found, approved, cured, proven, recorded"
    words.line(f"{done}. It took {time.monotonic() - begun:.0f} s.", style=GREEN, indent="")
    return 0


def _make_place(
    words: Words, stack: ExitStack, *, way: Way, environment: Mapping[str, str]
) -> Node | PrivateMounts | None:
    """Make what is cured later, None where nothing is; Obstacle when this machine does not allow it."""
    try:
        match way:
            case Way.NODE:
                _prepare(words, environment)
                words.begin(CURE_STEPS + (SSM_STEPS if _by_ssm(environment) else 0))
                words.step(f"Boot the node {NODE}", "A Debian with systemd and sshd of its own, in systemd-nspawn.")
                with words.waiting("it boots"):
                    node = stack.enter_context(Node(NODE))
                words.line(f"{NODE} is up, and takes root's logins at {node.address}")
                return node
            case Way.NAMESPACE:
                words.begin(CURE_STEPS)
                words.step("Make a place apart", "A private mount namespace: what is mounted there, nobody else sees.")
                private = stack.enter_context(PrivateMounts())
                # A /run of its own: another unstick on this machine keeps its marks there.
                for folder in ("/run", "/mnt"):
                    private.run(["mount", "-t", "tmpfs", "tmpfs", folder])
                words.line(f"In what follows it is called {NODE}.")
                return private
            case Way.LOOK:
                words.begin(LOOK_STEPS)
                return None
    except TROUBLE as trouble:
        raise Obstacle(demo_ways.last_line(str(trouble)).rstrip(".")) from trouble


def _prepare(words: Words, environment: Mapping[str, str]) -> None:
    """Install and build what a node needs, after asking; Obstacle when that is not wanted or does not work."""
    needed = demo_ways.installs()
    if not needed:
        return
    words.line()
    words.line("For the first, this has to be put on this machine, once:", indent="")
    for line in needed:
        words.line(f"  {line}", indent="")
    if not demo_ways.agreed(environment):
        raise Obstacle("nobody has agreed to that (YES=1 does)")
    packages = demo_ways.missing_packages()
    if packages:
        with words.waiting(f"installing {' '.join(packages)}"):
            demo_ways.install(packages)
    if rootfs.ready() is None:
        with words.waiting("building the node's Debian with mmdebstrap, about a minute"):
            rootfs.build()


def _by_ssm(environment: Mapping[str, str]) -> bool:
    return environment.get("EXECUTOR") == "ssm"


def _tell(words: Words, stack: ExitStack, *, stage: Stage, place: Node | PrivateMounts | None, by_ssm: bool) -> bool:
    """Tell the story; when a step fails say which and why, with the last words of the service, and return False."""
    try:
        if place is None:
            look(words, stage)
        else:
            cure(words, stack, stage=stage, place=place, by_ssm=by_ssm)
    except TROUBLE as trouble:
        words.line()
        words.line(f"{words.where} failed: {trouble}", style=RED, indent="")
        log = stage.log.read_text(errors="replace").splitlines() if stage.log.exists() else []
        if log:
            words.line("The service said last:", indent="")
        for line in log[-LOG_LINES:]:
            words.line(line)
        return False
    return True


def _keep(words: Words, stage: Stage) -> None:
    """Let everything outlive the demo, and say how it is used and ended."""
    (stage.folder / KEPT).write_text(json.dumps(leftovers.keep_mine()))
    words.line()
    words.line("Kept, as you asked. Speak to it as:", style=BOLD, indent="")
    for person, token in stage.tokens.items():
        words.command(f"{person} $", f"export UNSTICK_URL={stage.url} UNSTICK_TOKEN={token}")
    words.line(f"The API, to be tried:  {stage.url}/docs")
    words.line("The program, and its folder for commands on the database (audit, token, doctor):")
    words.command("$", f"cd {stage.folder} && export PATH={Path(UNSTICK).parent}:$PATH")
    words.line("End it with:", style=BOLD, indent="")
    words.command("$", f"make -C {Path(__file__).resolve().parent.parent} demo-down")


def _listen() -> None:
    for number in SIGNALS:
        signal.signal(number, _stop)


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise Stopped


if __name__ == "__main__":
    sys.exit(main())
