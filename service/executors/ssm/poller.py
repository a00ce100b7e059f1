"""One thread for each place that asks SSM how all commands under way there stand.

It lists, since one page tells of fifty invocations, and asks for a single one only when it is over and the short output
of the listing was not all of it. A listing is late: what is not in it is not there yet.
"""

import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from service.executors.ssm.command import Flight, Landing
from service.executors.ssm.faults import Fault, Proof
from service.executors.ssm.gateway import Gateway
from service.executors.ssm.statuses import Meaning, Standing, judge
from service.executors.ssm.tempo import Tempo

_PAGE = 50
#: A listing by time also has the commands of others; after so many pages the rest is asked for by command.
_MOST_PAGES = 20
#: So few commands are each asked for by their id.
_FEW = 2
#: InvokedAfter has whole seconds.
_EARLIER = timedelta(seconds=10)
_OVER = (Standing.OVER, Standing.NEVER_ARRIVED)
#: A document of another account is named by its ARN, and listed by another name.
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]+")
#: What SSM answers within its window of consistency, before an invocation is known everywhere.
_NOT_YET = ("InvocationDoesNotExist", "InvalidCommandId")


class Poller:
    """Follows flights until they land. Safe for many threads."""

    def __init__(self, gateway: Gateway, tempo: Tempo) -> None:
        """Follow nothing yet; the thread comes with the first flight and leaves when there is none."""
        self._gateway = gateway
        self._tempo = tempo
        self._changed = threading.Condition()
        self._flights: dict[tuple[str, str], Flight] = {}
        self._thread: threading.Thread | None = None
        self._closed = False
        #: How much more slowly than usual, since AWS throttles.
        self._slower = 1.0
        self._fault = ""
        self._fetched = 0.0

    def follow(self, flight: Flight) -> None:
        """Begin to follow a flight; its future gets the landing."""
        with self._changed:
            if self._closed:
                flight.landed.set_result(_lost("the service is stopping"))
                return
            self._flights[flight.key] = flight
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="ssm-poller", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def close(self) -> None:
        """Follow nothing any more; whoever waits is told that it is lost."""
        with self._changed:
            self._closed = True
            flights = list(self._flights.values())
            self._flights.clear()
            self._changed.notify_all()
        for flight in flights:
            flight.landed.set_result(_lost("the service is stopping"))

    def _run(self) -> None:
        last = -1e9
        try:
            while (flights := self._wait(last)) is not None:
                last = time.monotonic()
                self._look_once(flights)
                self._give_up()
        finally:
            # After a defect the next flight finds a thread again; those of now end at their time.
            with self._changed:
                if self._thread is threading.current_thread():
                    self._thread = None

    def _look_once(self, flights: Sequence[Flight]) -> None:
        try:
            self._look(flights)
        except Fault as fault:
            self._fault = fault.reason
            self._slow_down(throttled=fault.proof is Proof.THROTTLED)
        else:
            self._fault = ""
            self._slower = max(1.0, self._slower / 1.5)

    def _wait(self, last: float) -> list[Flight] | None:
        """Wait until it is time to look; None when there is nothing to follow."""
        with self._changed:
            while True:
                if self._closed or not self._flights:
                    self._thread = None
                    return None
                # What was sent a moment ago is not listed yet.
                since = min(max(flight.sent_at, last) for flight in self._flights.values())
                left = since + self._pause() - time.monotonic()
                if left <= 0:
                    return list(self._flights.values())
                self._changed.wait(left)

    def _pause(self) -> float:
        """Return how far apart two looks are: what began a moment ago may end soon."""
        tempo, now = self._tempo, time.monotonic()
        youngest = min(now - flight.sent_at for flight in self._flights.values())
        usual = min(max(tempo.of(tempo.look), youngest / 8), tempo.of(tempo.slowest_look))
        return min(usual * self._slower, max(usual, tempo.of(tempo.throttled_look)))

    def _slow_down(self, *, throttled: bool) -> None:
        # An error of another kind ends by itself or never; there is no haste either.
        self._slower = min(self._slower * (2.0 if throttled else 1.5), 64.0)

    def _look(self, flights: Sequence[Flight]) -> None:
        ours = {flight.key: flight for flight in flights}
        # A row may be read long after it was true: others of its page are fetched before it.
        asked_at = time.monotonic()
        for row in self._rows(flights):
            flight = ours.get(_key(row))
            if flight is not None:
                self._note(flight, row, asked_at=asked_at)

    def _rows(self, flights: Sequence[Flight]) -> Iterator[Mapping[str, Any]]:
        commands = {flight.accepted.command_id for flight in flights}
        if len(commands) <= _FEW:
            yield from self._by_command(commands)
            return
        first = min(flight.accepted.requested_at for flight in flights) - _EARLIER
        filters = [{"key": "InvokedAfter", "value": first.strftime("%Y-%m-%dT%H:%M:%SZ")}]
        document, *others = {flight.endpoint.document for flight in flights}
        if not others and _PLAIN_NAME.fullmatch(document):
            filters.append({"key": "DocumentName", "value": document})
        unseen, cut = {flight.key for flight in flights}, False
        for page in self._pages(Filters=filters):
            for row in page.get("CommandInvocations", ()):
                unseen.discard(_key(row))
                yield row
            # A page may be short, or empty, and not be the last.
            cut = bool(page.get("NextToken"))
        if cut:
            yield from self._by_command({command_id for command_id, _ in unseen})

    def _by_command(self, commands: set[str]) -> Iterator[Mapping[str, Any]]:
        for command_id in sorted(commands):
            try:
                for page in self._pages(CommandId=command_id):
                    yield from page.get("CommandInvocations", ())
            except Fault as fault:
                if fault.name not in _NOT_YET:
                    raise

    def _pages(self, **which: object) -> Iterator[Mapping[str, Any]]:
        token: str | None = None
        for _ in range(_MOST_PAGES):
            more = {"NextToken": token} if token else {}
            page = self._gateway.look("list_command_invocations", MaxResults=_PAGE, Details=True, **which, **more)
            yield page
            token = page.get("NextToken")
            if not token:
                return

    def _note(self, flight: Flight, row: Mapping[str, Any], *, asked_at: float) -> None:
        """Keep what a listing says of a flight; end it when it is over."""
        meaning = self._judge(flight, row)
        match meaning.standing:
            case Standing.MAY_RUN:
                flight.begun = True
            case Standing.WAITS:
                flight.seen_waiting = asked_at
            case Standing.OVER | Standing.NEVER_ARRIVED:
                output = _short_output(row)
                if flight.enough(output):
                    self._land(flight, Landing(meaning, output))
                else:
                    self._fetch(flight)
            case Standing.STRANGE:
                # Until SSM should have told the end; then it is as unknown as it is now.
                flight.begun = True

    def _fetch(self, flight: Flight) -> None:
        """Ask for the long output of what is over."""
        time.sleep(max(0.0, self._fetched + self._tempo.of(self._tempo.fetch) - time.monotonic()))
        self._fetched = time.monotonic()
        try:
            answer = self._gateway.look(
                "get_command_invocation", CommandId=flight.accepted.command_id, InstanceId=flight.instance
            )
        except Fault as fault:
            if fault.name in _NOT_YET:
                return
            raise
        meaning = self._judge(flight, answer)
        if meaning.standing in _OVER:
            self._land(flight, Landing(meaning, str(answer.get("StandardOutputContent") or "")))

    def _judge(self, flight: Flight, row: Mapping[str, Any]) -> Meaning:
        margin = self._tempo.of(self._tempo.consistent)
        never_begun = flight.never_begun(time.monotonic(), margin=margin)
        words = str(row.get("Status")), str(row.get("StatusDetails"))
        return judge(*words, never_begun=never_begun, seen_begun=flight.begun)

    def _give_up(self) -> None:
        """End what SSM should have ended by now."""
        now, beyond = time.monotonic(), self._tempo.of(self._tempo.beyond)
        with self._changed:
            late = [one for one in self._flights.values() if now >= one.last_word_by(beyond)]
        for flight in late:
            why = f": {self._fault}" if self._fault else ""
            self._land(flight, _lost(f"SSM did not say in time how its command ended{why}"))

    def _land(self, flight: Flight, landing: Landing) -> None:
        with self._changed:
            found = self._flights.pop(flight.key, None)
        if found is not None:
            flight.landed.set_result(landing)


def _key(row: Mapping[str, Any]) -> tuple[str, str]:
    return str(row.get("CommandId")), str(row.get("InstanceId"))


def _short_output(row: Mapping[str, Any]) -> str:
    return "\n".join(str(plugin.get("Output") or "") for plugin in row.get("CommandPlugins") or ())


def _lost(words: str) -> Landing:
    return Landing(Meaning(Standing.OVER, words))
