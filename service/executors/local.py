"""Reaches the machine that the service runs on, or a namespace of it."""

import os
import selectors
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from service.domain.node import Endpoint
from service.domain.script import AttemptRef, NotStarted, OutputChunk, Report, ReportState, ScriptOrder
from service.executors import envelope
from service.executors.frames import SHELL_ENDED, Conversation

#: The node ends a wait by itself; this long after it nobody is expected to answer any more.
PATIENCE_SECONDS = 30.0
READ_SIZE = 1 << 16


class LocalExecutor:
    """Starts the envelope as a process of this machine; the script outlives that process and us."""

    def __init__(self, *, prefix: Sequence[str] = ()) -> None:
        """Keep what goes before the command, such as `nsenter -t PID -m` for a private mount namespace."""
        self._prefix = tuple(prefix)
        self._leaving: list[subprocess.Popen[bytes]] = []
        self._lock = threading.Lock()

    def start(self, order: ScriptOrder, on_output: Callable[[OutputChunk], None]) -> Report:
        """Start the script once and follow it until it ends."""
        conversation = Conversation(order.attempt_id, order.endpoint)
        seconds = envelope.start_bound(order) + PATIENCE_SECONDS
        return self._converse(
            envelope.for_start(order), order.endpoint, conversation, seconds=seconds, on_output=on_output
        )

    def settle(self, attempt: AttemptRef, on_output: Callable[[OutputChunk], None]) -> Report:
        """Ask how an attempt stands, and follow it for as long as the reference says."""
        return self._ask(envelope.for_settle(attempt), attempt, on_output=on_output)

    def stop(self, attempt: AttemptRef, on_output: Callable[[OutputChunk], None]) -> Report:
        """End the script of an attempt."""
        return self._ask(envelope.for_stop(attempt), attempt, on_output=on_output)

    def close(self) -> None:
        """Collect our own ended processes; scripts run on."""
        for process in self._take_leaving():
            try:
                process.wait(timeout=2)
            except subprocess.TimeoutExpired:
                self._leave(process)

    def _ask(self, data: bytes, attempt: AttemptRef, *, on_output: Callable[[OutputChunk], None]) -> Report:
        conversation = Conversation(attempt.attempt_id, attempt.endpoint)
        seconds = attempt.wait.total_seconds() + PATIENCE_SECONDS
        return self._converse(data, attempt.endpoint, conversation, seconds=seconds, on_output=on_output)

    def _converse(
        self,
        data: bytes,
        endpoint: Endpoint,
        conversation: Conversation,
        *,
        seconds: float,
        on_output: Callable[[OutputChunk], None],
    ) -> Report:
        for process in self._take_leaving():
            if process.poll() is None:
                self._leave(process)
        try:
            process = _begin([*self._prefix, *envelope.arguments(endpoint)], endpoint.path)
        except OSError as error:
            reason = f"sh could not be started on {endpoint.name} ({error}), so nothing was started. Look at its PATH."
            return Report(ReportState.NOT_STARTED, not_started=NotStarted.UNREACHABLE, reason=reason)
        try:
            ending = _talk(process, data, conversation, until=time.monotonic() + seconds, on_output=on_output)
        finally:
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
            self._leave(process)
        return conversation.conclude(ending)

    def _take_leaving(self) -> list[subprocess.Popen[bytes]]:
        with self._lock:
            taken, self._leaving = self._leaving, []
        return taken

    def _leave(self, process: subprocess.Popen[bytes]) -> None:
        with self._lock:
            self._leaving.append(process)


def _begin(command: Sequence[str], path: str) -> subprocess.Popen[bytes]:
    """Start the shell with an environment of its own: ours holds settings that no script should see."""
    return subprocess.Popen(
        command,
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
        env={"PATH": path, "HOME": str(Path.home())},
    )


def _talk(
    process: subprocess.Popen[bytes],
    data: bytes,
    conversation: Conversation,
    *,
    until: float,
    on_output: Callable[[OutputChunk], None],
) -> str:
    """Send and read until the report is there; return how the conversation ended."""
    stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
    if stdin is None or stdout is None or stderr is None:
        return "no pipe was made"
    unsent = memoryview(data)
    with selectors.DefaultSelector() as selector:
        for pipe in (stdin, stdout, stderr):
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe, selectors.EVENT_WRITE if pipe is stdin else selectors.EVENT_READ, pipe)
        while conversation.report is None and selector.get_map():
            ready = selector.select(max(0.0, until - time.monotonic()))
            if not ready and time.monotonic() >= until:
                return "it did not answer in time"
            for key, _ in ready:
                if key.fileobj is stdin:
                    unsent = _send(key.fd, unsent)
                    over = not unsent
                else:
                    take = conversation.feed if key.fileobj is stdout else conversation.hear
                    over = not _receive(key.fd, take, on_output)
                if over:
                    selector.unregister(key.fileobj)
                    key.data.close()
    return SHELL_ENDED


def _send(fd: int, unsent: memoryview) -> memoryview:
    """Return what is still to be sent; nothing when nobody reads any more."""
    try:
        return unsent[os.write(fd, unsent[:READ_SIZE]) :]
    except BrokenPipeError:
        return unsent[:0]


def _receive(fd: int, take: Callable[[bytes], Sequence[OutputChunk]], on_output: Callable[[OutputChunk], None]) -> bool:
    """Read once and hand on the output in it; return False at the end of the stream."""
    received = os.read(fd, READ_SIZE)
    for chunk in take(received):
        on_output(chunk)
    return bool(received)
