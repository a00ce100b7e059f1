"""Scripts over AWS Systems Manager Run Command.

A command is sent once. When its answer is lost nobody knows whether it will be delivered: that is reported as `lost`,
and the node is asked, as after a broken link. What SSM says of a command is how its carrier fared; how the script
stands is said by the envelope alone.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta

from service.domain.node import Endpoint
from service.domain.script import AttemptRef, NotStarted, OutputChunk, Report, ReportState, ScriptOrder
from service.executors import envelope, reasons
from service.executors.not_sent import NotSent
from service.executors.ssm import wire
from service.executors.ssm.answer import Answer
from service.executors.ssm.command import LONGEST_WAIT, SHORTEST_DELIVERY, Command, Flight, Landing, execution_seconds
from service.executors.ssm.gateway import Patience, Place, place_of
from service.executors.ssm.gather import Sent, start_command, too_long
from service.executors.ssm.sender import MayHaveArrived
from service.executors.ssm.station import Station
from service.executors.ssm.tempo import Tempo
from service.executors.ssm.turns import AT_ONCE, NoTurn, Turns

OnOutput = Callable[[OutputChunk], None]

#: After a script has ended its output is asked for at most so often. An answer has 24,000 characters, which are some
#: fifty thousand bytes of text; a node keeps less than a million.
MOST_QUESTIONS = 24
#: TERM, five seconds, KILL, five seconds.
_STOP_SECONDS = 15.0


class SsmExecutor:
    """Sends the envelope by SendCommand. Safe for many threads, places and nodes."""

    def __init__(
        self,
        now: Callable[[], datetime],
        *,
        tempo: Tempo | None = None,
        patience: Patience | None = None,
        longest_wait: int = LONGEST_WAIT,
        questions: int = MOST_QUESTIONS,
    ) -> None:
        """Take the clock that orders are dated by; nothing is asked of AWS yet."""
        self._now = now
        self._tempo = tempo or Tempo()
        self._patience = patience or Patience()
        self._longest_wait = longest_wait
        self._questions = questions
        self._turns = Turns()
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._stations: dict[Place, Station] = {}
        #: Of scripts that are being started, by attempt.
        self._starting: dict[str, Flight] = {}
        #: Instances whose agent does not tell a script where it is: what goes there goes alone.
        self._nameless: set[str] = set()

    def start(self, order: ScriptOrder, on_output: OnOutput) -> Report:
        """Start the script once; `running` when it takes longer than one command is followed."""
        answer = Answer(order, on_output)
        try:
            landing = self._start(order, answer)
        except NotSent as refused:
            return refused.report()
        except MayHaveArrived as lost:
            return _lost(order.endpoint, str(lost))
        report = answer.take(landing, started=True)
        attempt = AttemptRef(order.attempt_id, order.endpoint, order.boot_id or report.boot_id)
        return self._with_rest(attempt, report, answer=answer)

    def settle(self, attempt: AttemptRef, on_output: OnOutput) -> Report:
        """Ask how an attempt stands; a node that cannot be asked leaves it `lost`."""
        answer = Answer(attempt, on_output)
        report = self._settle(attempt, answer, wait=attempt.wait)
        return self._with_rest(attempt, report, answer=answer)

    def stop(self, attempt: AttemptRef, on_output: OnOutput) -> Report:
        """End the script of an attempt; a node that cannot be asked leaves it `lost`."""
        self._hold_back(attempt)
        answer = Answer(attempt, on_output)
        data = envelope.for_stop(attempt, answer.within(0))
        report = self._ask(attempt, data, answer=answer, seconds=_STOP_SECONDS)
        return self._with_rest(attempt, report, answer=answer)

    def close(self) -> None:
        """Send and ask no more; scripts run on, and whoever follows one is told that it is lost."""
        self._closed.set()
        with self._lock:
            stations = list(self._stations.values())
        for station in stations:
            station.close()

    def _start(self, order: ScriptOrder, answer: Answer) -> Landing:
        endpoint = order.endpoint
        within = answer.within(min(envelope.start_bound(order), self._longest_wait))
        station = self._station(endpoint)
        with self._turn(endpoint):
            if not order.acting and endpoint.address not in self._nameless:
                landing = self._follow_start(station, station.gatherer.start(order, within), order=order, answer=answer)
                if wire.NO_INSTANCE not in landing.output:
                    return landing
                # Our own line says that it started nothing.
                self._nameless.add(endpoint.address)
            command = start_command(order, within, now=self._now())
            if len(command.line) > wire.MOST_CHARACTERS:
                raise too_long(order, command)
            return self._follow_start(station, station.send(command), order=order, answer=answer)

    def _follow_start(self, station: Station, sent: Sent, *, order: ScriptOrder, answer: Answer) -> Landing:
        flight = station.depart(sent, order.endpoint, enough=answer.enough)
        self._starting[order.attempt_id] = flight
        try:
            return station.land(flight)
        finally:
            del self._starting[order.attempt_id]

    def _hold_back(self, attempt: AttemptRef) -> None:
        """Ask SSM not to deliver a start that nobody has seen begin: the node is then asked all the same."""
        flight = self._starting.get(attempt.attempt_id)
        if flight is not None and not flight.begun:
            self._station(attempt.endpoint).sender.cancel(flight.accepted, instance=flight.instance)

    def _settle(self, attempt: AttemptRef, answer: Answer, *, wait: timedelta) -> Report:
        seconds = min(wait.total_seconds(), self._longest_wait)
        question = replace(attempt, offsets=dict(answer.offsets))
        data = envelope.for_settle(question, answer.within(seconds))
        return self._ask(attempt, data, answer=answer, seconds=seconds)

    def _ask(self, attempt: AttemptRef, data: bytes, *, answer: Answer, seconds: float) -> Report:
        """Ask once; a question that was refused proves nothing of the script."""
        endpoint = attempt.endpoint
        line = wire.for_one(data, attempt_id=attempt.attempt_id, endpoint=endpoint)
        command = Command((endpoint,), line, attempt.attempt_id, SHORTEST_DELIVERY, execution_seconds(seconds))
        try:
            with self._turn(endpoint):
                station = self._station(endpoint)
                flight = station.depart(station.send(command), endpoint, enough=answer.enough)
                landing = station.land(flight)
        except (NotSent, MayHaveArrived) as error:
            return _lost(endpoint, str(error))
        return answer.take(landing, started=False)

    def _with_rest(self, attempt: AttemptRef, report: Report, *, answer: Answer) -> Report:
        """Ask for what the first answer of a script that has ended had no room for."""
        if report.state is not ReportState.FINISHED:
            return report
        for _ in range(self._questions):
            if answer.complete:
                return report
            held = answer.held()
            again = self._settle(attempt, answer, wait=timedelta(0))
            if again.state is not ReportState.FINISHED or answer.held() == held:
                break
            report = again
        return report if answer.complete else answer.without_the_rest(report)

    @contextmanager
    def _turn(self, endpoint: Endpoint) -> Iterator[None]:
        try:
            with self._turns.take(endpoint.address, seconds=self._tempo.of(self._tempo.turn_for)):
                if self._closed.is_set():
                    raise NotSent(NotStarted.UNREACHABLE, f"Nothing was sent to {endpoint.name}: unstick is stopping.")
                yield
        except NoTurn as none:
            raise NotSent(
                NotStarted.UNREACHABLE,
                f"{AT_ONCE} commands of unstick are under way on {endpoint.name} and do not end, so no more was sent.",
                f"Look at amazon-ssm-agent there, and with `unstick nodes check {endpoint.name}`.",
            ) from none

    def _station(self, endpoint: Endpoint) -> Station:
        place = place_of(endpoint)
        with self._lock:
            if place not in self._stations:
                self._stations[place] = Station(place, self._tempo, patience=self._patience, now=self._now)
            return self._stations[place]


def _lost(endpoint: Endpoint, what: str) -> Report:
    return Report(ReportState.LOST, reason=reasons.lost(endpoint.name, what.rstrip("."), ""))
