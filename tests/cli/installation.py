"""A whole installation in one folder, driven by the real program."""

import atexit
import os
import pty
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from service.app.tokens import create_token
from service.client import Client
from service.domain.person import Role
from service.main import SystemClock, open_store, record_service
from service.settings import Settings
from tests.support.database import prepare
from tests.support.loaded_program import LoadedProgram

UNSTICK = str(Path(sys.executable).with_name("unstick"))
NODES = 60
#: Long enough for the slowest machine; it only stops a hang.
PATIENCE = 120.0

_STEP = """\
schema: 1
name: {name}
title: Touch a file
owner: tests
description: For the tests of the command line.
params:
  run_exit: {{type: integer, min: 0, max: 99, default: 0, description: How run ends.}}
  verify_exit: {{type: integer, min: 0, max: 99, default: 0, description: How verify ends.}}
  check_exit: {{type: integer, min: 0, max: 99, default: 0, description: How check ends.}}
  wait: {{type: string, default: '', max_length: 300, description: A file for which run waits.}}
limits:
  approval_expires: {expires}
steps:
  - id: touch
    title: Act on a thing
    {approval}
    timeout: 1m
    check: |
      echo "looked at $NODE_NAME"
      echo "thing-of-$NODE_NAME" >"$UNSTICK_TARGETS"
      exit "$PARAM_CHECK_EXIT"
    run: |
      if [ -n "$PARAM_WAIT" ]; then
        echo "$UNSTICK_ATTEMPT" >>"$PARAM_WAIT.acted"
        while [ ! -e "$PARAM_WAIT" ]; do sleep 0.1; done
      fi
      printf 'acted, \\033[31mred\\n'
      exit "$PARAM_RUN_EXIT"
    verify: |
      exit "$PARAM_VERIFY_EXIT"
"""
_LOOK = """\
schema: 1
name: look
title: Look only
owner: tests
description: For the tests of the command line.
steps:
  - id: look
    title: Look
    read_only: true
    timeout: 1m
    run: |
      echo "this is $NODE_NAME"
"""


#: What is loaded leaves nothing beside the sources, and is of the tree whose tests these are, where that is a copy.
_UNWRITTEN = {"PYTHONDONTWRITEBYTECODE": "1"} | {
    name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ
}
#: A program that so begins ends with whoever has started it; its pid is its own.
_TIED = ("setpriv", "--pdeathsig=TERM")


@dataclass
class Installation:
    """Inventory, runbooks and database of one service."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    #: Before the command that serves: the way into another namespace.
    enter: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Write the files."""
        (self.folder / "config").mkdir(parents=True)
        (self.folder / "runbooks").mkdir()
        nodes = "".join(f"  n{number:02}: {{executor: local, view: private}}\n" for number in range(NODES))
        (self.folder / "config" / "inventory.yaml").write_text(f"nodes:\n{nodes}")
        for name, approval, expires in (
            ("free", "approval: none", "1h"),
            ("confirm", "approval: confirm", "1h"),
            ("second", "approval: second_person", "1h"),
            ("brief", "approval: confirm", "1s"),
        ):
            text = _STEP.format(name=name, approval=approval, expires=expires)
            (self.folder / "runbooks" / f"{name}.yaml").write_text(text)
        (self.folder / "runbooks" / "look.yaml").write_text(_LOOK)
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            **_UNWRITTEN,
            "UNSTICK_CONFIG": "config",
            "UNSTICK_RUNBOOKS": "runbooks",
            "UNSTICK_PORT": "0",
        }

    @property
    def database(self) -> Path:
        """Return the database's file."""
        return self.folder / "unstick.db"

    def __call__(
        self, *arguments: str, env: Mapping[str, str] | None = None, answer: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run `unstick` with these arguments in the folder, and wait for its end."""
        command, environment = [UNSTICK, *arguments], {**self.environment, **(env or {})}
        if (loaded := _loaded()).can_be(environment):
            return loaded.run(command, cwd=self.folder, env=environment, answer=answer, timeout=PATIENCE)
        return subprocess.run(
            command,
            cwd=self.folder,
            env=environment,
            input=answer,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def token(self, name: str, *roles: Role, person: str | None = None) -> str:
        """Make a token beside the running service and return it."""
        clock = SystemClock()
        settings = Settings(database_url=SecretStr(prepare(f"sqlite:///{self.database}")))
        with closing(open_store(settings, clock)) as store:
            service = record_service(store, clock=clock)
            return create_token(service, name, roles=frozenset(roles), person=person or name, by="test")

    @contextmanager
    def serving(self, *arguments: str, env: Mapping[str, str] | None = None) -> Iterator["Serving"]:
        """Start the service, wait until it has said where it is, and end it afterwards."""
        # Whatever ends the tests, by a signal too, ends the service: no `finally` plays then.
        command = [*self.enter, *_own_run_folder(self.folder), *_TIED, UNSTICK, "serve", *arguments]
        log = (self.folder / "serve.log").open("ab")
        with (
            log,
            subprocess.Popen(
                command,
                cwd=self.folder,
                env={**self.environment, **(env or {})},
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            ) as process,
        ):
            try:
                yield Serving(process, _greeting(process, self.folder / "serve.log"), self)
            finally:
                with suppress(ProcessLookupError):
                    process.send_signal(signal.SIGTERM)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(PATIENCE)
                process.kill()


@dataclass(frozen=True)
class Serving:
    """A running service."""

    process: subprocess.Popen[str]
    url: str
    place: Installation

    @property
    def port(self) -> str:
        """Return the port on which it listens."""
        return self.url.rpartition(":")[2]


@dataclass(frozen=True)
class Someone:
    """A person at the command line."""

    place: Installation
    url: str
    token: str

    def __call__(self, *arguments: str, answer: str = "") -> subprocess.CompletedProcess[str]:
        """Run `unstick` as this person."""
        return self.place(*arguments, env={"UNSTICK_URL": self.url, "UNSTICK_TOKEN": self.token}, answer=answer)

    def on_terminal(self, *arguments: str, answer: str = "", no_color: bool = False) -> tuple[int, str]:
        """Run `unstick` as this person on a terminal, and return its exit code and what was to be seen."""
        ours, theirs = pty.openpty()
        environment = {**self.place.environment, "UNSTICK_URL": self.url, "UNSTICK_TOKEN": self.token}
        environment |= {"TERM": "xterm-256color", "COLUMNS": "200"} | ({"NO_COLOR": "1"} if no_color else {})
        with subprocess.Popen(
            [UNSTICK, *arguments], cwd=self.place.folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
        ) as process:
            os.close(theirs)
            os.write(ours, answer.encode())
            seen = b""
            # Linux answers EIO when the last program has left the terminal.
            with suppress(OSError):
                while part := os.read(ours, 65536):
                    seen += part
            code = process.wait(PATIENCE)
        os.close(ours)
        return code, seen.decode().replace("\r\n", "\n")

    def run(self, run_id: str) -> dict[str, Any]:
        """Return a run, asked without the program."""
        with Client(self.url, self.token) as client:
            found: dict[str, Any] = client.get(f"/runs/{run_id}")
            return found

    def latest(self, node: str) -> dict[str, Any]:
        """Return the newest run on a node as a list shows it, asked without the program; empty when there is none."""
        with Client(self.url, self.token) as client:
            items: list[dict[str, Any]] = client.get("/runs", node=node, limit=1)["items"]
            return items[0] if items else {}

    def request(self, runbook: str, node: str, **params: Any) -> str:
        """Request a run without the program, wait until it stands still, and return its id."""
        with Client(self.url, self.token) as client:
            run_id = str(client.request("/runs", {"runbook": runbook, "nodes": [node], "params": params})["id"])
        eventually(lambda: self.run(run_id)["state"] not in ("queued", "running"))
        return run_id

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start `unstick` as this person, and do not wait for it."""
        environment = {**self.place.environment, "UNSTICK_URL": self.url, "UNSTICK_TOKEN": self.token}
        return subprocess.Popen(
            [UNSTICK, *arguments],
            cwd=self.place.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def eventually(look: Callable[[], bool]) -> None:
    """Return as soon as something is so; a hang fails."""
    deadline = time.monotonic() + PATIENCE
    while not look():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.1)


def said_until(waiting: subprocess.Popen[str], words: str) -> str:
    """Read what a waiting command says until these words come; a command that ends first fails."""
    assert waiting.stderr is not None
    lines = []
    for line in waiting.stderr:
        lines.append(line)
        if words in line:
            return "".join(lines)
    raise AssertionError("".join(lines))


@cache
def _loaded() -> LoadedProgram:
    """Return the program, loaded once for the tests of this process."""
    loaded = LoadedProgram({"PATH": os.environ["PATH"], **_UNWRITTEN})
    atexit.register(loaded.close)
    return loaded


def _greeting(process: subprocess.Popen[str], log: Path) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("unstick serves on http://"), f"{line!r}: {log.read_text(errors='replace')[-2000:]}"
    return line.split()[-1]


def _own_run_folder(folder: Path) -> Sequence[str]:
    """Give the services of one folder a /run of their own, so that they share no acting lock with other tests.

    It outlives each of them, as that of a machine does.
    """
    if os.geteuid() != 0:
        return ()
    (folder / "run").mkdir(exist_ok=True)
    mount = f'mount --bind {shlex.quote(str(folder / "run"))} /run && exec "$@"'
    return ("unshare", "--mount", "--propagation", "private", "sh", "-c", mount, "sh")
