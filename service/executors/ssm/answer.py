"""What several commands bring of one attempt, put together: the frames of each, cut or whole."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from service.domain.script import (
    AttemptRef,
    NotStarted,
    OutputChunk,
    Report,
    ReportState,
    ScriptKind,
    ScriptOrder,
    Stream,
)
from service.executors import reasons
from service.executors.envelope import OneAnswer
from service.executors.frames import TARGETS_LIMIT, Conversation, read_targets
from service.executors.ssm import wire
from service.executors.ssm.command import Landing
from service.executors.ssm.statuses import Standing

OnOutput = Callable[[OutputChunk], None]


class Answer:
    """All that is held of one attempt."""

    def __init__(self, attempt: AttemptRef | ScriptOrder, on_output: OnOutput) -> None:
        """Begin with the output that the caller holds already."""
        #: Whether the last answer left nothing out.
        self.complete = False
        self.offsets = {stream: attempt.offsets.get(stream, 0) for stream in Stream}
        self._attempt = attempt
        self._on_output = on_output
        #: Only a look names targets; those of an act were ours.
        self._wants_targets = not isinstance(attempt, ScriptOrder) or attempt.kind is ScriptKind.CHECK
        self._targets = b""
        self._targets_complete = False

    def within(self, seconds: float) -> OneAnswer:
        """Return what the node is asked for next: what is not held, in a size that arrives."""
        targets_at = len(self._targets) if self._wants_targets else TARGETS_LIMIT + 1
        return OneAnswer(math.ceil(max(0.0, seconds)), wire.ANSWER_LIMIT, targets_at)

    def held(self) -> tuple[int, ...]:
        """Return how much is held, to see whether a further question brought anything."""
        return (len(self._targets), *self.offsets.values())

    def enough(self, output: str) -> bool:
        """Return whether an output has all that is missing; nothing of it is taken yet."""
        conversation = Conversation(self._attempt.attempt_id, self._attempt.endpoint)
        ends = dict(self.offsets)
        for chunk in conversation.feed(_lines(output)):
            ends[chunk.stream] = max(ends[chunk.stream], chunk.offset + len(chunk.data))
        report = conversation.report
        if report is None:
            return False
        targets = _joined(self._targets, conversation.targets)
        return _has_output(report, ends) and self._has_targets(conversation, targets)

    def take(self, landing: Landing, *, started: bool) -> Report:
        """Take what one command brought: output goes on; return the report, or what its end proves.

        `started` tells whether the command was to start the script: that a question never arrived proves nothing.
        """
        conversation = Conversation(self._attempt.attempt_id, self._attempt.endpoint)
        for chunk in conversation.feed(_lines(landing.output)):
            self._on_output(chunk)
            self.offsets[chunk.stream] = max(self.offsets[chunk.stream], chunk.offset + len(chunk.data))
        self._targets = _joined(self._targets, conversation.targets)
        report, meaning = conversation.report, landing.meaning
        if report is not None:
            self._targets_complete = self._has_targets(conversation, self._targets)
            self.complete = self._targets_complete and _has_output(report, self.offsets)
            return self._with_targets(report) if report.state is ReportState.FINISHED else report
        node = self._attempt.endpoint.name
        if started and meaning.standing is Standing.NEVER_ARRIVED:
            reason = f"Nothing was started on {node}: {meaning.words}. Look with `unstick nodes check {node}`."
            cause = meaning.cause or NotStarted.UNREACHABLE
            return Report(ReportState.NOT_STARTED, not_started=cause, reason=reason)
        return conversation.conclude(meaning.words)

    def without_the_rest(self, report: Report) -> Report:
        """Return the report of a script that has ended when more of what it left could not be fetched.

        Output may be missing, and is told so. Targets may not: a list that was cut would pass for the whole.
        """
        node = self._attempt.endpoint.name
        if not self._targets_complete:
            why = "its script has ended, but the targets that it named did not all arrive"
            return Report(ReportState.LOST, reason=reasons.lost(node, why, ""))
        note = f"SSM brings its output in pieces, and not all of it was fetched; {node} keeps the rest for a day."
        return replace(report, truncated=True, reason=f"{report.reason} {note}".strip())

    def _has_targets(self, conversation: Conversation, targets: bytes) -> bool:
        return not self._wants_targets or len(targets) >= conversation.targets_bytes

    def _with_targets(self, report: Report) -> Report:
        targets, left_out = read_targets(self._targets)
        notes = [report.reason, reasons.targets_left_out(left_out)]
        reason = " ".join(note for note in notes if note)
        return replace(report, targets=targets, truncated=report.truncated or left_out, reason=reason)


def _has_output(report: Report, ends: Mapping[Stream, int]) -> bool:
    return ends[Stream.STDOUT] >= report.stdout_bytes and ends[Stream.STDERR] >= report.stderr_bytes


def _joined(held: bytes, pieces: Mapping[int, bytes]) -> bytes:
    """Return what is held with the pieces that follow it without a gap."""
    for offset, piece in sorted(pieces.items()):
        if offset <= len(held) < offset + len(piece):
            held += piece[len(held) - offset :]
    return held


def _lines(output: str) -> bytes:
    # The last line end may be missing; a frame that was cut is none, since it does not end with its brace.
    return output.encode(errors="replace") + b"\n"
