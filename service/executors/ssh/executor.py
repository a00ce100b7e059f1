"""Scripts over SSH. A refused beginning is a report that nothing ran; a lost link is asked about, never repeated."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from service.domain.node import Endpoint
from service.domain.public_key import KEY_TYPES, PublicKey
from service.domain.script import AttemptRef, OutputChunk, Report, ReportState, ScriptOrder, Stream
from service.executors import envelope, reasons
from service.executors.frames import Conversation
from service.executors.not_sent import NotSent
from service.executors.retry import Retry
from service.executors.ssh.exchange import SHELL_ENDED, Exchange, NothingSent
from service.executors.ssh.host_keys import HostKeys, algorithms_of
from service.executors.ssh.keys import KeyRing
from service.executors.ssh.link import Dialler, Link, NoCommonAlgorithm, Patience, unreachable
from service.executors.ssh.pool import Limits, LinkPool

OnOutput = Callable[[OutputChunk], None]

#: `stop` waits twice five seconds for the end of a group.
_STOP_SECONDS = 15.0


@dataclass(frozen=True)
class Persistence:
    """How long a lost script is asked about before the answer is `lost`."""

    #: The node ends every wait by itself; so much later nobody is expected to answer any more.
    beyond_deadline: float = 20.0
    #: Failed questions in a row.
    questions: int = 4
    #: The pause before the second question; it doubles with each.
    pause: float = 1.0
    #: How long each question follows a script that still runs.
    follow: timedelta = timedelta(seconds=20)


class SshExecutor:
    """Sends the envelope over kept connections. Safe for many threads and endpoints."""

    def __init__(
        self,
        now: Callable[[], datetime],
        *,
        patience: Patience | None = None,
        limits: Limits | None = None,
        retry: Retry | None = None,
        persistence: Persistence | None = None,
    ) -> None:
        """Take the clock by which certificates are judged; no connection is made yet."""
        # paramiko tells each lost connection with a traceback; where nobody set logging up it would go to stderr.
        logging.getLogger("paramiko").addHandler(logging.NullHandler())
        self._persistence = persistence or Persistence()
        self._closing = threading.Event()
        self._retry = retry or Retry()
        self._dialler = Dialler(KeyRing(now), HostKeys(), patience or Patience(), now)
        self._pool = LinkPool(self._dialler, limits=limits or Limits(), retry=self._retry)

    def start(self, order: ScriptOrder, on_output: OnOutput) -> Report:
        """Start the script once and follow it until it ends; a lost link is asked about for a while."""
        held = _Held(dict(order.offsets), on_output)
        until = time.monotonic() + envelope.start_bound(order) + self._persistence.beyond_deadline
        conversation = Conversation(order.attempt_id, order.endpoint)
        data = envelope.for_start(order)
        try:
            link, ending = self._converse(data, conversation, endpoint=order.endpoint, held=held, until=until)
        except NotSent as refused:
            return refused.report()
        report = _conclude(conversation, ending, endpoint=order.endpoint)
        if _final(report):
            return report
        attempt = AttemptRef(order.attempt_id, order.endpoint, order.boot_id or link.boot_id)
        until = max(until, time.monotonic() + self._persistence.beyond_deadline)
        return self._find_out(attempt, held, lost=report, until=until)

    def settle(self, attempt: AttemptRef, on_output: OnOutput) -> Report:
        """Ask how an attempt stands; a node that cannot be asked leaves it `lost`."""
        held = _Held(dict(attempt.offsets), on_output)
        return self._ask(envelope.for_settle, attempt, held=held, bound=attempt.wait.total_seconds())

    def stop(self, attempt: AttemptRef, on_output: OnOutput) -> Report:
        """End the script of an attempt; a node that cannot be asked leaves it `lost`."""
        held = _Held(dict(attempt.offsets), on_output)
        return self._ask(envelope.for_stop, attempt, held=held, bound=_STOP_SECONDS)

    def offered_host_keys(self, endpoint: Endpoint) -> tuple[PublicKey, ...]:
        """Return the host keys that a server shows to anybody, best type first; nobody logs in there.

        They prove nothing: a person has to compare the fingerprints. NotSent when the server cannot be asked.
        """
        offered = [self._retry(partial(self._offered, endpoint, kind)) for kind in KEY_TYPES]
        return tuple(key for key in offered if key is not None)

    def _offered(self, endpoint: Endpoint, kind: str) -> PublicKey | None:
        carrier = self._pool.take(endpoint.jump, carries=True) if endpoint.jump else None
        try:
            return self._dialler.offered(endpoint, algorithms_of(kind), carrier=carrier).key
        except NoCommonAlgorithm:
            return None
        finally:
            if carrier is not None:
                self._pool.give(carrier)

    def connections(self) -> int:
        """Return how many connections stand."""
        return self._pool.size()

    def close(self) -> None:
        """Cut every connection; scripts run on, and whoever follows one is told that it is lost."""
        self._closing.set()
        self._pool.close()

    def _find_out(self, attempt: AttemptRef, held: "_Held", *, lost: Report, until: float) -> Report:
        """Ask about an attempt whose link was lost, until the answer is final, or nobody answers."""
        failed, pause, report = 0, self._persistence.pause, lost
        while (left := until - time.monotonic()) > 0:
            wait = min(self._persistence.follow, timedelta(seconds=left))
            question = replace(attempt, offsets=dict(held.offsets), wait=wait)
            report = self._ask(envelope.for_settle, question, held=held, bound=wait.total_seconds())
            if _final(report):
                break
            if report.state is ReportState.RUNNING:
                failed, pause = 0, self._persistence.pause
                continue
            failed += 1
            if failed == self._persistence.questions or self._closing.wait(pause):
                break
            pause *= 2
        return report

    def _ask(self, words: Callable[[AttemptRef], bytes], attempt: AttemptRef, *, held: "_Held", bound: float) -> Report:
        """Ask once; a question that was refused proves nothing of the script."""
        conversation = Conversation(attempt.attempt_id, attempt.endpoint)
        until = time.monotonic() + bound + self._persistence.beyond_deadline
        try:
            _, ending = self._converse(words(attempt), conversation, endpoint=attempt.endpoint, held=held, until=until)
        except NotSent as refused:
            return _lost(attempt.endpoint, str(refused))
        report = conversation.conclude(ending)
        return report if conversation.report is not None else _lost(attempt.endpoint, ending)

    def _converse(
        self, data: bytes, conversation: Conversation, *, endpoint: Endpoint, held: "_Held", until: float
    ) -> tuple[Link, str]:
        """Say one verb; a kept connection that turns out broken is replaced once. NotSent when nothing was sent."""
        trouble = ""
        for _ in range(2):
            link = self._pool.take(endpoint)
            try:
                return link, Exchange(link, conversation, held.take, until).hold(data)
            except NothingSent as error:
                trouble = str(error)
                if link.alive() and link.answers():
                    raise unreachable(endpoint, f"its sshd answers, but {trouble}") from error
                link.close()
            finally:
                self._pool.give(link)
        raise unreachable(endpoint, trouble)


@dataclass
class _Held:
    """Output that we hold already, so that a second question does not bring it again."""

    offsets: dict[Stream, int]
    on_output: OnOutput

    def take(self, chunk: OutputChunk) -> None:
        self.on_output(chunk)
        held = self.offsets.get(chunk.stream, 0)
        self.offsets[chunk.stream] = max(held, chunk.offset + len(chunk.data))


def _lost(endpoint: Endpoint, ending: str) -> Report:
    return Report(ReportState.LOST, reason=reasons.lost(endpoint.name, ending.rstrip("."), ""))


def _conclude(conversation: Conversation, ending: str, *, endpoint: Endpoint) -> Report:
    """Return the report; words of sudo prove that nothing ran only when its shell was seen to end after them."""
    if conversation.report is None and ending != SHELL_ENDED:
        return _lost(endpoint, ending)
    return conversation.conclude(ending)


def _final(report: Report) -> bool:
    """Tell whether asking again could bring nothing new; a node's own `unknown` is `lost` with facts."""
    match report.state:
        case ReportState.RUNNING:
            return False
        case ReportState.LOST:
            return report.facts is not None
        case _:
            return True
