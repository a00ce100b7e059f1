"""All that speaks with one account and region: one sender, one gatherer, one poller."""

import threading
import time
from collections.abc import Callable
from datetime import datetime

from service.domain.node import Endpoint
from service.executors.ssm.command import Command, Flight, Landing
from service.executors.ssm.gateway import Gateway, Patience, Place
from service.executors.ssm.gather import Gatherer, Sent
from service.executors.ssm.poller import Poller
from service.executors.ssm.sender import Sender
from service.executors.ssm.statuses import Meaning, Standing
from service.executors.ssm.tempo import Tempo


class Station:
    """Sends commands and brings their answers. Safe for many threads."""

    def __init__(self, place: Place, tempo: Tempo, *, patience: Patience, now: Callable[[], datetime]) -> None:
        """Build the parts; nothing is asked of AWS yet."""
        self._tempo = tempo
        self._closing = threading.Event()
        self._gateway = Gateway(place, patience)
        self._poller = Poller(self._gateway, tempo)
        self.sender = Sender(self._gateway, tempo, closing=self._closing)
        self.gatherer = Gatherer(self.sender.send, now=now, seconds=tempo.of(tempo.gather), closing=self._closing)

    def send(self, command: Command) -> Sent:
        """Send a command of one node; NotSent, MayHaveArrived."""
        return Sent(command, self.sender.send(command))

    def depart(self, sent: Sent, endpoint: Endpoint, *, enough: Callable[[str], bool]) -> Flight:
        """Begin to follow what was sent to one node; `enough` tells whether a short output is the whole answer."""
        flight = Flight(sent.command, sent.accepted, endpoint, time.monotonic(), enough, self._tempo.pace)
        self._poller.follow(flight)
        return flight

    def land(self, flight: Flight) -> Landing:
        """Wait until a flight is over, or should have been long ago."""
        beyond = self._tempo.of(self._tempo.beyond)
        try:
            return flight.landed.result(max(0.0, flight.last_word_by(2 * beyond) - time.monotonic()) + 60)
        except TimeoutError:
            return Landing(Meaning(Standing.OVER, "SSM did not answer in time"))

    def close(self) -> None:
        """End every wait, and the connections."""
        self._closing.set()
        self._poller.close()
        self._gateway.close()
