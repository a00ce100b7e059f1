"""A place for tests of the envelope: a private mount namespace with a /run of its own, and a local executor in it."""

import shutil
import subprocess
import threading
import uuid
from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lab.private import PrivateMounts
from service.domain.node import Confine, Endpoint, ExecutorKind, View
from service.domain.script import AttemptRef, OutputChunk, Report, ScriptKind, ScriptOrder, Stream
from service.executors import envelope
from service.executors.local import LocalExecutor

BOOT = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
OTHER_BOOT = "11111111-2222-4333-8444-555555555555"
#: The envelope itself is tried without the kernel's help; tests/executors/test_confinement.py is about that.
HERE = Endpoint("gpu-01", ExecutorKind.LOCAL, "gpu-01", view=View.PRIVATE, confine=Confine.OFF)


@dataclass
class Heard:
    """The output of one conversation, put in order by its offsets."""

    chunks: list[OutputChunk] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def __call__(self, chunk: OutputChunk) -> None:
        with self.changed:
            self.chunks.append(chunk)
            self.changed.notify_all()

    def text(self, stream: Stream = Stream.STDOUT) -> bytes:
        """Return what was heard of a stream, gaps left out."""
        return b"".join(chunk.data for chunk in self.chunks if chunk.stream is stream)

    def offsets(self) -> dict[Stream, int]:
        """Return how far each stream was heard."""
        ends: dict[Stream, int] = defaultdict(int)
        for chunk in self.chunks:
            ends[chunk.stream] = chunk.offset + len(chunk.data)
        return dict(ends)

    def wait_for(self, words: bytes, *, seconds: float = 60.0) -> None:
        """Wait until these words were heard; the deadline only stops a hang."""
        with self.changed:
            assert self.changed.wait_for(lambda: words in self.text(), timeout=seconds), f"never heard: {words!r}"


@dataclass
class Place:
    """Where the envelope is tried."""

    mounts: PrivateMounts
    executor: LocalExecutor

    @property
    def prefix(self) -> list[str]:
        """Return what goes before a command; the executor looks for programs on the endpoint's PATH alone."""
        program, *rest = self.mounts.enter_prefix
        return [shutil.which(program) or program, *rest]

    @property
    def folder(self) -> Path:
        """Return the folder of the attempts, as this process sees it."""
        return self.mounts.root / "run/unstick"

    def file(self, name: str) -> Path:
        """Return a file of the place's /run, where scripts leave their traces."""
        return self.mounts.root / "run" / name

    def start(self, order: ScriptOrder, heard: Heard | None = None) -> Report:
        return self.executor.start(order, heard or Heard())

    def settle(self, attempt: AttemptRef, heard: Heard | None = None) -> Report:
        return self.executor.settle(attempt, heard or Heard())

    def stop(self, attempt: AttemptRef, heard: Heard | None = None) -> Report:
        return self.executor.stop(attempt, heard or Heard())

    def begin(self, order: ScriptOrder) -> "subprocess.Popen[bytes]":
        """Start a script through a transport that a test may kill: the process that is returned."""
        transport = subprocess.Popen(
            [*self.prefix, "sh", "-c", envelope.command_line(order.endpoint)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert transport.stdin is not None
        transport.stdin.write(envelope.for_start(order))
        transport.stdin.close()
        return transport

    def close(self) -> None:
        """Close the executor, also one that a test has put in the place of the first."""
        self.executor.close()

    def cut(self, transport: "subprocess.Popen[bytes]") -> None:
        """Kill a transport."""
        transport.kill()
        transport.wait()
        if transport.stdout is not None:
            transport.stdout.close()


def give_run(mounts: PrivateMounts, *, size: str = "64m") -> None:
    """Mount an empty /run of its own size in the namespace."""
    done = mounts.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", "/run"])
    assert done.returncode == 0, done.stderr


def order(text: str, **changes: object) -> ScriptOrder:
    """Return an order for a script with an attempt id of its own."""
    now = datetime.now(UTC)
    plain = ScriptOrder(
        attempt_id=uuid.uuid4().hex,
        run_id="run-1",
        step="look",
        kind=ScriptKind.CHECK,
        endpoint=HERE,
        text=text,
        targets=(),
        acting=False,
        timeout=timedelta(seconds=30),
        not_after=now + timedelta(minutes=2),
        sent_at=now,
        service_id="service-1",
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def acting(text: str, **changes: object) -> ScriptOrder:
    """Return an order for a script that changes the node."""
    return order(text, acting=True, boot_id=BOOT, kind=ScriptKind.RUN, **changes)


def ref(of: ScriptOrder, *, wait: float = 20.0, **changes: object) -> AttemptRef:
    """Return the attempt of an order."""
    plain = AttemptRef(of.attempt_id, of.endpoint, BOOT, wait=timedelta(seconds=wait))
    return replace(plain, **changes)  # type: ignore[arg-type]
