"""What an executor reports, turned into what is recorded of an attempt."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import assert_never

from service.app.masked_output import MaskedOutput
from service.app.ports import Store, Transaction
from service.domain.audit import Fact
from service.domain.errors import Unavailable
from service.domain.redaction import redact
from service.domain.run import Attempt, AttemptState, NodeRun
from service.domain.script import OutputChunk, Report, ReportState

#: Live output is written this often, or when this much has come.
FLUSH_SECONDS = 0.25
FLUSH_BYTES = 64 * 1024


def with_report(attempt: Attempt, report: Report, *, now: datetime) -> Attempt:
    """Return the attempt as the report leaves it; a lost link changes only when it was asked.

    A target that holds a secret is recorded without it. No run finds anything by that name, so nothing acts on it.
    """
    reason = redact(report.reason)
    if report.state is ReportState.LOST:
        return replace(attempt, asked_at=now, reason=reason)
    targets = tuple(redact(one) for one in report.targets) if attempt.kind == "check" else attempt.targets
    return replace(
        attempt,
        state=_state(report.state),
        not_started=report.not_started,
        reason=reason,
        exit_code=report.exit_code,
        signal=report.signal,
        ended_by_us=report.ended_by_us,
        pid=report.pid,
        wchan=report.wchan,
        boot_id=report.boot_id or attempt.boot_id,
        targets=targets,
        stdout_bytes=report.stdout_bytes,
        stderr_bytes=report.stderr_bytes,
        truncated=report.truncated,
        asked_at=now,
        answered_at=now,
        started_at=report.started_at or attempt.started_at,
        finished_at=report.finished_at or (None if report.state is ReportState.RUNNING else now),
    )


def _state(state: ReportState) -> AttemptState:
    match state:
        case ReportState.RUNNING:
            return AttemptState.RUNNING
        case ReportState.FINISHED:
            return AttemptState.FINISHED
        case ReportState.UNKILLABLE:
            return AttemptState.UNKILLABLE
        case ReportState.NOT_STARTED:
            return AttemptState.NOT_STARTED
        case ReportState.REBOOTED:
            return AttemptState.REBOOTED
        case ReportState.LOST:
            return AttemptState.INTENDED
        case _:
            assert_never(state)


def intent_fact(attempt: Attempt, *, node_run: NodeRun) -> Fact:
    """Return the fact that is committed before a script is sent."""
    body = {
        "attempt": attempt.id,
        "script": attempt.kind,
        "script_sha256": attempt.script_sha256,
        "acting": attempt.acting,
        "boot_id": attempt.boot_id if attempt.acting else None,
        "targets": list(attempt.targets),
        "round": attempt.round,
    }
    return _fact("attempt.intended", attempt, node_run=node_run, body=body)


def lost_fact(attempt: Attempt, *, node_run: NodeRun) -> Fact:
    """Return the fact that an answer was lost, with what is said of it; the attempt stays as it was."""
    body = {"attempt": attempt.id, "script": attempt.kind, "reason": attempt.reason}
    return _fact("attempt.lost", attempt, node_run=node_run, body=body)


def result_fact(attempt: Attempt, *, node_run: NodeRun) -> Fact:
    """Return the fact that tells how an attempt ended."""
    body = {
        "attempt": attempt.id,
        "script": attempt.kind,
        "state": attempt.state,
        "not_started": attempt.not_started,
        "exit_code": attempt.exit_code,
        "signal": attempt.signal,
        "boot_id": attempt.boot_id,
        "targets": list(attempt.targets),
        "output_sha256": attempt.output_sha256,
        "stdout_bytes": attempt.stdout_bytes,
        "stderr_bytes": attempt.stderr_bytes,
        "truncated": attempt.truncated,
        "reason": attempt.reason,
    }
    return _fact(f"attempt.{attempt.state}", attempt, node_run=node_run, body=body)


def _fact(action: str, attempt: Attempt, *, node_run: NodeRun, body: Mapping[str, object]) -> Fact:
    return Fact(
        action,
        f"attempt/{attempt.id}",
        "unstick",
        run_id=node_run.run_id,
        node=node_run.node,
        step=attempt.step,
        body=body,
    )


class OutputSink:
    """Keeps output as it comes but for secrets, in few writes; what cannot be written yet waits in memory."""

    def __init__(self, store: Store) -> None:
        """Write to this store."""
        self._store = store
        self._chunks: list[OutputChunk] = []
        self._masked = MaskedOutput()
        self._lock = threading.Lock()
        self._flushed = time.monotonic()

    def __call__(self, chunk: OutputChunk) -> None:
        """Take one chunk; called by executors, from any thread."""
        with self._lock:
            self._chunks += self._masked.take(chunk)
            size = sum(len(one.data) for one in self._chunks)
            due = size >= FLUSH_BYTES or time.monotonic() - self._flushed >= FLUSH_SECONDS
            chunks = self._take() if due else []
        if chunks:
            self._write(chunks)

    def rest(self, *, whole: bool) -> Callable[[Transaction], None]:
        """Return the write of all that is still here, to be part of another write.

        Not `whole`: more will come, so the line that has not ended is left out, and the node sends it again.
        """
        with self._lock:
            chunks = [*self._take(), *(self._masked.rest() if whole else ())]
        return lambda transaction: _add(transaction, chunks)

    def _take(self) -> list[OutputChunk]:
        chunks, self._chunks = self._chunks, []
        self._flushed = time.monotonic()
        return chunks

    def _write(self, chunks: list[OutputChunk]) -> None:
        try:
            self._store.write(lambda transaction: _add(transaction, chunks))
        except Unavailable:
            with self._lock:
                self._chunks = [*chunks, *self._chunks]


def _add(transaction: Transaction, chunks: list[OutputChunk]) -> None:
    for chunk in chunks:
        transaction.add_output(chunk)
