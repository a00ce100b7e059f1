"""What the SSH tests share: orders, executors with little patience, and what comes back."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from service.domain.node import Endpoint
from service.domain.script import AttemptRef, OutputChunk, Report, ScriptKind, ScriptOrder, Stream
from service.executors.retry import Retry
from service.executors.ssh.executor import Persistence, SshExecutor
from service.executors.ssh.link import Patience
from service.executors.ssh.pool import Limits

#: Nothing is given up because this machine is busy.
PATIENT = Patience(connect=30, handshake=60, login=60, channel=30, look=60, silence=15, answer=60)
#: For tests in which a peer is dead: it is soon doubted.
IMPATIENT = replace(PATIENT, handshake=5, silence=1.5, answer=3)
#: And it is asked again for as long as it takes.
PERSISTENT = Persistence(beyond_deadline=10, questions=20, pause=0.2, follow=timedelta(seconds=5))


def now() -> datetime:
    """Return the time."""
    return datetime.now(UTC)


def executor(
    *,
    patience: Patience = PATIENT,
    limits: Limits | None = None,
    retry: Retry | None = None,
    persistence: Persistence | None = None,
    clock: Callable[[], datetime] = now,
) -> SshExecutor:
    """Return an executor that soon stops trying what is refused, and asking about what is lost."""
    few = Persistence(beyond_deadline=10, questions=3, pause=0.2, follow=timedelta(seconds=5))
    return SshExecutor(
        clock, patience=patience, limits=limits, retry=retry or Retry(seconds=2), persistence=persistence or few
    )


def order(endpoint: Endpoint, text: str, **words: object) -> ScriptOrder:
    """Return an order for a script that only reads, with some words changed."""
    at = now()
    values: dict[str, object] = {
        "attempt_id": uuid.uuid4().hex,
        "run_id": "run-1",
        "step": "look",
        "kind": ScriptKind.CHECK,
        "endpoint": endpoint,
        "text": f"set -euo pipefail\n{text}\n",
        "targets": (),
        "acting": False,
        "timeout": timedelta(seconds=20),
        "not_after": at + timedelta(seconds=60),
        "sent_at": at,
        "service_id": "test",
    }
    return ScriptOrder(**(values | words))  # type: ignore[arg-type]


def ref(sent: ScriptOrder, **words: object) -> AttemptRef:
    """Return the reference to an order that was sent."""
    values: dict[str, object] = {
        "attempt_id": sent.attempt_id, "endpoint": sent.endpoint, "boot_id": sent.boot_id, "wait": timedelta(seconds=5),
    }  # fmt: skip
    return AttemptRef(**(values | words))  # type: ignore[arg-type]


@dataclass
class Heard:
    """Collects output; a stream is put together by offsets."""

    chunks: list[OutputChunk] = field(default_factory=list)

    def __call__(self, chunk: OutputChunk) -> None:
        """Keep a chunk."""
        self.chunks.append(chunk)

    def text(self, stream: Stream = Stream.STDOUT) -> bytes:
        """Return a stream; a byte that came twice must have come twice alike."""
        whole = bytearray()
        for chunk in (chunk for chunk in self.chunks if chunk.stream is stream):
            end = chunk.offset + len(chunk.data)
            whole.extend(b"?" * (end - len(whole)))
            whole[chunk.offset : end] = chunk.data
        return bytes(whole)


def said(report: Report) -> tuple[object, object, object]:
    """Return what decides: state, cause and exit code."""
    return report.state, report.not_started, report.exit_code
