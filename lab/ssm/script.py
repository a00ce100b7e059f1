"""One real script on a machine, started and ended as the agent does it (aws/amazon-ssm-agent agent/executers).

`sh -c` on a script file, in a process group of its own, standard input from /dev/null, both outputs through pipes. The
agent waits until the process has ended and nobody holds the pipes any more; when time is up it sends SIGKILL to the
group and does not look whether that helped.
"""

import contextlib
import os
import selectors
import subprocess
import tempfile
from collections.abc import Mapping, Sequence

from lab import control_group
from lab.ssm.output import STDOUT_MOST

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
DEFAULT_DIRECTORY = "/usr/bin"  # WorkingDirectory of amazon-ssm-agent.service
KILL_SECONDS = 20.0
CHUNK = 65536
# Writes the script from standard input, tells its process group in the first line, and becomes the script's shell.
# setsid and not the shell's own job control: like the agent, it leaves no shell of ours above the script.
START = r"""
( umask 077; mkdir -p "$1" && cat >"$1/_script.sh" && chmod 700 "$1/_script.sh" ) ||
    { echo "failed to create script file"; exit 125; }
exec </dev/null
cd "$2" 2>/dev/null || { echo "failed to run commands: chdir $2: no such file or directory"; exit 125; }
exec setsid sh -c 'echo "$$"; exec sh -c "$1"' sh "$1/_script.sh"
"""


class NotStarted(Exception):
    """The script could not be started; the words are the agent's."""


class MachineGone(Exception):
    """The machine was not there to start anything on."""


class Script:
    """A script that runs; `pump` reads what it prints, `over` tells the end."""

    def __init__(
        self,
        place: Sequence[str],
        text: str,
        *,
        folder: str,
        directory: str,
        environment: Mapping[str, str],
        cgroups: Sequence[str] = (),
    ) -> None:
        """Start it; `folder` is a path on the machine that is free for this script."""
        self._place = place
        command = [*place, "sh", "-c", START, "sh", folder, directory or DEFAULT_DIRECTORY]
        with tempfile.TemporaryFile() as source:
            source.write(text.encode())
            source.seek(0)
            self.process = subprocess.Popen(
                control_group.entering(cgroups, command),
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={"PATH": PATH, **environment},
            )
        self._streams = selectors.DefaultSelector()
        self._kept = {"stdout": bytearray(), "stderr": bytearray()}
        for name, stream in (("stdout", self.process.stdout), ("stderr", self.process.stderr)):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            self._streams.register(stream, selectors.EVENT_READ, name)
        self.group: int | None = None

    @property
    def stdout(self) -> bytes:
        """Give the head of what was printed; more than the agent's limit is not kept."""
        return bytes(self._kept["stdout"])

    @property
    def stderr(self) -> bytes:
        """Give the head of the other stream."""
        return bytes(self._kept["stderr"])

    def pump(self, seconds: float) -> None:
        """Read what there is, and wait for it at most this long."""
        if self._streams.get_map():
            for key, _ in self._streams.select(seconds):
                self._read(key)
        elif self.process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(seconds)
        if self.group is None:
            self._first_line()

    def over(self) -> bool:
        """Tell whether the process has ended and its pipes are closed."""
        return not self._streams.get_map() and self.process.poll() is not None

    def kill(self) -> bool:
        """Send SIGKILL to the group; False if there was no such group."""
        command = [*self._place, "sh", "-c", 'kill -s KILL -- "-$1"', "sh", str(self.group)]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=KILL_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

    def let_go(self) -> None:
        """Close our ends of the pipes and leave the script alone; its next output ends it, unless it catches that."""
        self._streams.close()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def _read(self, key: selectors.SelectorKey) -> None:
        try:
            data = os.read(key.fd, CHUNK)
        except BlockingIOError:
            return
        if not data:
            self._streams.unregister(key.fileobj)
            return
        kept = self._kept[key.data]
        room = STDOUT_MOST + (CHUNK if self.group is None else 1) - len(kept)
        kept += data[: max(0, room)]

    def _first_line(self) -> None:
        line, newline, rest = bytes(self._kept["stdout"]).partition(b"\n")
        if newline and line.isdigit():
            self.group = int(line)
            self._kept["stdout"] = bytearray(rest)
        elif newline:
            self._finish()
            raise NotStarted(line.decode(errors="replace"))
        elif self.over():
            words = self.stderr.decode(errors="replace")
            self._finish()
            raise MachineGone(words)

    def _finish(self) -> None:
        self.let_go()
        self.process.wait()
