"""Asks a machine by a script that only reads, outside any run: for those who must know which nodes there are, and how
they are."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from service.app.look_order import look_order
from service.app.ports import Clock, Executors
from service.domain.errors import SourceSilent
from service.domain.node import Controller, Endpoint
from service.domain.script import OutputChunk, Report, ReportState, Stream, render

_SAID_CHARACTERS = 300
_WAY_OUT = "`unstick nodes check` tells how the controller is reached."


class _Kept:
    """Keeps what a script says, each stream in its order."""

    def __init__(self) -> None:
        self._chunks: dict[tuple[Stream, int], bytes] = {}

    def __call__(self, chunk: OutputChunk) -> None:
        self._chunks[chunk.stream, chunk.offset] = chunk.data

    def of(self, stream: Stream) -> bytes:
        """Return what is there of a stream, without a gap; what a piece repeats is left out."""
        whole = b""
        for (kind, offset), data in sorted(self._chunks.items(), key=lambda item: item[0][1]):
            if kind is stream and offset <= len(whole):
                whole += data[len(whole) - offset :]
        return whole


@dataclass(frozen=True)
class Inquiry:
    """What a machine is asked, and as what that stands in the header of the order."""

    endpoint: Endpoint
    #: A script that only reads.
    script: str
    timeout: timedelta
    run_id: str
    step: str
    environment: Mapping[str, str] = field(default_factory=dict)
    #: What people call the machine, such as `the controller head`.
    place: str = ""
    #: What to do when it says more than is kept.
    if_too_much: str = ""


def ask_controller(
    controller: Controller,
    script: str,
    timeout: timedelta,
    *,
    executors: Executors,
    clock: Clock,
    service_id: str,
) -> bytes:
    """Run a script with the controller's env and return its whole standard output.

    Raises SourceSilent when it did not run, failed, did not end in time, or said more than is kept.
    """
    inquiry = Inquiry(
        controller.endpoint,
        script,
        timeout,
        run_id="node-source",
        step="nodes",
        environment=controller.environment,
        place=f"the controller {controller.endpoint.name}",
        if_too_much="Narrow it with `selector`.",
    )
    return ask(inquiry, executors=executors, clock=clock, service_id=service_id)


def ask(inquiry: Inquiry, *, executors: Executors, clock: Clock, service_id: str) -> bytes:
    """Run a script on a machine and return its whole standard output; SourceSilent as above."""
    kept = _Kept()
    order = look_order(
        inquiry.endpoint,
        render(prelude="", body=inquiry.script, environment=inquiry.environment),
        clock,
        run_id=inquiry.run_id,
        step=inquiry.step,
        timeout=inquiry.timeout,
        valid_for=timedelta(minutes=10),
        service_id=service_id,
    )
    return _whole(executors.of(inquiry.endpoint).start(order, kept), kept, inquiry=inquiry)


def _whole(report: Report, kept: _Kept, *, inquiry: Inquiry) -> bytes:
    said = " ".join(kept.of(Stream.STDERR).decode("utf-8", "replace").split())[-_SAID_CHARACTERS:]
    where = f"on {inquiry.place}"
    if report.state is not ReportState.FINISHED:
        raise SourceSilent(f"Nothing was learned {where}: {report.reason or report.state}", _WAY_OUT)
    if report.ended_by_us:
        seconds = inquiry.timeout.total_seconds()
        raise SourceSilent(f"The command {where} did not end within {seconds:.0f} s. {said}".strip(), _WAY_OUT)
    if report.exit_code != 0:
        ended = f"signal {report.signal}" if report.signal is not None else f"exit {report.exit_code}"
        raise SourceSilent(f"The command {where} failed ({ended}): {said or 'it said nothing'}")
    output = kept.of(Stream.STDOUT)
    if report.truncated or len(output) != report.stdout_bytes:
        raise SourceSilent(f"The command {where} said more than is kept of a script.", inquiry.if_too_much)
    return output
