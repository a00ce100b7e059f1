"""`unstick`, loaded once and forked for each command: to load it costs a second of a processor, some hundred times.

A command is a process of its own with its own environment, folder, streams and exit code. That a command loads what it
uses is what `tests/cli/test_start.py` is about, which starts the real program, as do services, terminals, whoever waits
and the demo.
"""

import atexit
import gc
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

#: Packages and modules that are loaded before the first command, with all that is in them.
_LOADED: Final = (
    "service.cli",
    "service.executors",
    "service.inventory",
    "service.notify",
    "service.serving",
    "service.store",
    "service.triggers",
    "service.web",
)
#: What an interpreter reads while it starts, and never again.
_READ_AT_START: Final = ("PYTHON", "LC_", "LANG")
#: A message is a command and its environment (bytes).
_MOST: Final = 65536
#: Standard input, output and error, and where the pid and the exit code are told.
_SENT: Final = 4


class LoadedProgram:
    """A process that has loaded the program, and becomes it once for each command; it ends with its owner."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Start it as the program itself would be started in an environment."""
        self._at_start = _at_start(environment)
        self._asking, asked = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with asked:
            # -P: what lies beside this file is not to be found under names of libraries.
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(asked.fileno())],
                env=environment,
                stdin=subprocess.DEVNULL,
                pass_fds=[asked.fileno()],
            )

    def close(self) -> None:
        """Let nobody ask any more, and wait for its end."""
        self._asking.close()
        self._process.wait()

    def can_be(self, environment: Mapping[str, str]) -> bool:
        """Tell whether a command that is forked sees what one that is started in this environment would see."""
        return _at_start(environment) == self._at_start

    def run(
        self, command: Sequence[str], *, cwd: Path, env: Mapping[str, str], answer: str, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """Do what `subprocess.run` does with captured streams; raises TimeoutExpired (`timeout` in seconds)."""
        asked = json.dumps({"command": command, "cwd": str(cwd), "env": dict(env)}).encode()
        assert len(asked) < _MOST, "a command of this length has to be started"
        with ExitStack() as stack:
            streams = [stack.enter_context(os.fdopen(os.memfd_create("stream"), "w+b")) for _ in range(_SENT - 1)]
            streams[0].write(answer.encode())
            streams[0].seek(0)
            reading, writing = os.pipe()
            ending = stack.enter_context(os.fdopen(reading))
            sent = [*(stream.fileno() for stream in streams), writing]
            socket.send_fds(self._asking, [asked], sent)
            os.close(writing)
            told = ending.readline()
            assert told, "the program could not be loaded; standard error says why"
            pid = int(told)
            if not select.select([ending], [], [], timeout)[0]:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(command, timeout)
            code = int(ending.readline())
            out, error = (
                _text(os.pread(stream.fileno(), os.fstat(stream.fileno()).st_size, 0)) for stream in streams[1:]
            )
        return subprocess.CompletedProcess(list(command), code, out, error)


@dataclass(frozen=True)
class _Asked:
    """A command that was asked for, as the process that becomes it knows it."""

    command: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    files: Sequence[int]


def _at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)}


def _text(told: bytes) -> str:
    return told.decode().replace("\r\n", "\n").replace("\r", "\n")


def _load() -> None:
    """Import all that a command may import, and leave it alone: what a collection touches is copied."""
    for name in _LOADED:
        module = import_module(name)
        for found in pkgutil.walk_packages(getattr(module, "__path__", []), f"{name}."):
            import_module(found.name)
    gc.collect()
    gc.freeze()


def _next_command(asking: socket.socket) -> _Asked | None:
    """Return what this process has to become, which is a fork; None in the first one, when nobody asks any more."""
    poll, told = select.poll(), dict[int, tuple[int, int]]()
    poll.register(asking, select.POLLIN)
    while True:
        for ready, _events in poll.poll():
            if ready in told:
                _tell_end(ready, *told.pop(ready))
                poll.unregister(ready)
                os.close(ready)
                continue
            words, files, _flags, _address = socket.recv_fds(asking, _MOST, _SENT)
            if not words:
                return None
            pid = os.fork()
            if pid == 0:
                return _Asked(**json.loads(words), files=files)
            for file in files[:-1]:
                os.close(file)
            os.write(files[-1], f"{pid}\n".encode())
            ending = os.pidfd_open(pid)
            told[ending] = (pid, files[-1])
            poll.register(ending, select.POLLIN)


def _tell_end(ending: int, pid: int, file: int) -> None:
    _pid, status = os.waitpid(pid, 0)
    with suppress(BrokenPipeError):
        os.write(file, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os.close(file)


def _become(asked: _Asked) -> None:
    """Let nothing but what was loaded tell this process from one that was started for the command."""
    for number, file in enumerate(asked.files[:-1]):
        os.dup2(file, number)
    os.closerange(len(asked.files) - 1, max(asked.files) + 64)
    os.chdir(asked.cwd)
    # Set by the interpreter itself where nobody has named a locale (PEP 538).
    coerced = {name: value for name, value in os.environ.items() if name == "LC_CTYPE"}
    os.environ.clear()
    os.environ.update({**coerced, **asked.env})
    time.tzset()
    sys.argv = list(asked.command)


def _main() -> int:
    asking = socket.socket(fileno=int(sys.argv[1]))
    _load()
    asked = _next_command(asking)
    if asked is None:
        return 0
    asking.detach()
    _become(asked)
    try:
        sys.exit(import_module("service.cli").main())
    except SystemExit as ended:
        if isinstance(ended.code, int):
            _end(ended.code)
        raise


def _end(code: int) -> None:
    """End as an interpreter does, but for what it takes apart at last: that would copy all that was loaded."""
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.exit(_main())
