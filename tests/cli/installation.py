"""A whole installation in one folder, driven by the real program."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

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
      while [ -n "$PARAM_WAIT" ] && [ ! -e "$PARAM_WAIT" ]; do sleep 0.1; done
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


@dataclass
class Installation:
    """Inventory, runbooks and database of one service."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

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
            "PYTHONDONTWRITEBYTECODE": "1",
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
        return subprocess.run(
            [UNSTICK, *arguments],
            cwd=self.folder,
            env={**self.environment, **(env or {})},
            input=answer,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def token(self, name: str, *roles: str, person: str | None = None) -> str:
        """Make a token and return it."""
        words = [word for role in roles for word in ("--role", role)]
        whose = ["--person", person] if person else []
        made = self("token", "create", "--name", name, *words, *whose)
        assert made.returncode == 0, made.stderr
        return made.stdout.strip()

    @contextmanager
    def serving(self, *arguments: str, env: Mapping[str, str] | None = None) -> Iterator["Serving"]:
        """Start the service, wait until it has said where it is, and end it afterwards."""
        command = [*_own_run_folder(), UNSTICK, "serve", *arguments]
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


def _greeting(process: subprocess.Popen[str], log: Path) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("unstick serves on http://"), f"{line!r}: {log.read_text(errors='replace')[-2000:]}"
    return line.split()[-1]


def _own_run_folder() -> Sequence[str]:
    """Give the service a /run of its own, so that it shares no acting lock with other tests of this machine."""
    if os.geteuid() != 0:
        return ()
    mount = 'mount -t tmpfs tmpfs /run && exec "$@"'
    return ("unshare", "--mount", "--propagation", "private", "sh", "-c", mount, "sh")
