"""Asks a controller by a script that only reads, outside any run: for those who must know which nodes there are."""

from datetime import timedelta

from service.app.look_order import look_order
from service.app.ports import Clock, Executors
from service.domain.errors import SourceSilent
from service.domain.node import Controller
from service.domain.script import OutputChunk, Report, ReportState, ScriptOrder, Stream, render

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
    kept = _Kept()
    order = look_order(
        controller.endpoint,
        render(prelude="", body=script, environment=controller.environment),
        clock,
        run_id="node-source",
        step="nodes",
        timeout=timeout,
        valid_for=timedelta(minutes=10),
        service_id=service_id,
    )
    return _whole(executors.of(controller.endpoint).start(order, kept), kept, order=order)


def _whole(report: Report, kept: _Kept, *, order: ScriptOrder) -> bytes:
    said = " ".join(kept.of(Stream.STDERR).decode("utf-8", "replace").split())[-_SAID_CHARACTERS:]
    where = f"on the controller {order.endpoint.name}"
    if report.state is not ReportState.FINISHED:
        raise SourceSilent(f"Nothing was learned {where}: {report.reason or report.state}", _WAY_OUT)
    if report.ended_by_us:
        seconds = order.timeout.total_seconds()
        raise SourceSilent(f"The command {where} did not end within {seconds:.0f} s. {said}".strip(), _WAY_OUT)
    if report.exit_code != 0:
        ended = f"signal {report.signal}" if report.signal is not None else f"exit {report.exit_code}"
        raise SourceSilent(f"The command {where} failed ({ended}): {said or 'it said nothing'}")
    output = kept.of(Stream.STDOUT)
    if report.truncated or len(output) != report.stdout_bytes:
        raise SourceSilent(f"The command {where} said more than is kept of a script.", "Narrow it with `selector`.")
    return output
