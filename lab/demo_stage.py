"""A whole installation for one demo: a folder, the service as a process of its own, and persons at the command line."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lab import leftovers
from lab.closing import Closing
from lab.demo_words import Words
from lab.guardian import guarded_record
from lab.process import Process, wait_until

UNSTICK = str(Path(sys.executable).with_name("unstick"))
GREETING = "unstick serves on "
START_SECONDS = 60.0
#: The service gives scripts that it follows 15 s, and its web a few more.
STOP_SECONDS = 25.0
#: It only stops a hang.
PATIENCE = 300.0


class Failed(Exception):
    """A step of the demo did not end as it must; the text says what was seen."""


class Stage(Closing):
    """The folder with inventory, database and logs; the service; and who speaks to it."""

    def __init__(self, words: Words) -> None:
        """Make the folder."""
        self._words = words
        name = f"demo-{os.getpid()}"
        self._record = guarded_record(name)
        self.folder = leftovers.run_folder() / name
        self.folder.mkdir(mode=0o700)
        self._record.folders.append(str(self.folder))
        self._record.save()
        self._service: subprocess.Popen[bytes] | None = None
        self.url = ""
        self.tokens: dict[str, str] = {}

    def write_inventory(self, nodes: Mapping[str, Mapping[str, object]]) -> None:
        """Name the nodes; JSON is YAML, and needs no writer of its own."""
        (self.folder / "config").mkdir()
        (self.folder / "config" / "inventory.yaml").write_text(json.dumps({"nodes": nodes}, indent=2) + "\n")

    def serve(
        self, prefix: Sequence[str] = (), *, shown: str = "", environment: Mapping[str, str] | None = None
    ) -> None:
        """Start the service on a free port of loopback, behind a prefix such as `nsenter ...`.

        It sees `environment` too, of which `shown`, words such as `NAME=value`, is what the demo prints.
        """
        command = [*prefix, "env", f"--chdir={self.folder}", UNSTICK, "serve"]
        self._words.command("$", f"cd {self.folder}")
        self._words.command("$", f"{shown} UNSTICK_PORT=0 unstick serve &".lstrip())
        with (self.folder / "serve.out").open("wb") as out, self.log.open("wb") as log:
            self._service = subprocess.Popen(
                command,
                env=self._environment() | {"UNSTICK_PORT": "0"} | dict(environment or {}),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
                start_new_session=True,
            )
        self._record.processes.append(Process.of(self._service.pid))
        self._record.save()
        wait_until(lambda: self._greeted() or self.ended(), "the service says where it is", seconds=START_SECONDS)
        if not self._greeted():
            raise Failed("the service ended instead of serving")
        self._words.line(f"{GREETING}{self.url}")

    @property
    def log(self) -> Path:
        """Give the file of the service's log."""
        return self.folder / "serve.log"

    def ended(self) -> bool:
        """Tell whether the service is not there any more."""
        return self._service is None or self._service.poll() is not None

    def person(self, name: str, role: str) -> None:
        """Make a token for a person, beside the running service; it is not shown."""
        arguments = ["token", "create", "--name", name, "--role", role]
        self._words.command("$", f"unstick {' '.join(arguments)}")
        made = self._run("", arguments)
        if made.returncode != 0:
            raise Failed(made.stderr.strip())
        self.tokens[name] = made.stdout.strip()
        self._words.line(
            f"{self.tokens[name][:8]}...    (printed once; {name} sets UNSTICK_TOKEN to it, and UNSTICK_URL)"
        )

    def types(self, person: str, command: str, *, expect: int = 0) -> list[str]:
        """Let a person type `unstick COMMAND`, print what it answers as it comes, and return it.

        Raises Failed when it ends with another exit code than `expect`.
        """
        self._words.command(f"{person} $".lstrip(), f"unstick {command}")
        lines = []
        with subprocess.Popen(
            [UNSTICK, *command.split()],
            cwd=self.folder,
            env=self._environment(person),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                lines.append(line.rstrip("\n"))
                self._words.answer(lines[-1])
        if process.returncode != expect:
            raise Failed(f"`unstick {command}` ended with exit code {process.returncode}, not with {expect}")
        return lines

    def ask(self, person: str, *arguments: str) -> Any:
        """Ask with `--json` and show nothing; Failed when it is refused."""
        asked = self._run(person, [*arguments, "--json"])
        if asked.returncode != 0:
            raise Failed(f"`unstick {' '.join(arguments)}`: {asked.stderr.strip()}")
        return json.loads(asked.stdout)

    def close(self) -> None:
        """End the service and remove the folder."""
        if self._service is not None and self._service.poll() is None:
            self._service.terminate()
            try:
                self._service.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._service.kill()
                self._service.wait()
        self._record.undo()

    def _run(self, person: str, arguments: Sequence[str]) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [UNSTICK, *arguments],
            cwd=self.folder,
            env=self._environment(person),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def _greeted(self) -> bool:
        for line in (self.folder / "serve.out").read_text().splitlines():
            if line.startswith(GREETING):
                self.url = line.removeprefix(GREETING)
        return bool(self.url)

    def _environment(self, person: str = "") -> dict[str, str]:
        """Give what a command sees: nothing of another installation that the surroundings may name."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("UNSTICK_", "AWS_"))}
        kept |= {"UNSTICK_URL": self.url} if self.url else {}
        return kept | ({"UNSTICK_TOKEN": self.tokens[person]} if person else {})
