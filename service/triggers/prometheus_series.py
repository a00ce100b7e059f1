"""From Prometheus' record of its own alerts to what an Alertmanager would have delivered.

Prometheus writes a sample of `ALERTS` for each alert at each evaluation of its rule, and one of `ALERTS_FOR_STATE`
whose value says since when the condition holds (rules/alerting.go in https://github.com/prometheus/prometheus). An
alert begins at its first firing sample, as `startsAt` does. While samples are missing and the condition holds since the
same time (Prometheus was restarted, a disk was full), it is the same alert for as long as Alertmanager would have
waited.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from service.domain.alert import Alert, AlertStatus

#: Of docs/monitoring/alertmanager: what unstick's route waits before the first delivery, between two looks, and until a
#: delivery in which nothing is new is repeated (seconds).
GROUP_WAIT, GROUP_INTERVAL, REPEAT_INTERVAL = 10, 60, 1800
#: Prometheus says of an alert that it ends after so many of its intervals, at least so many minutes, unless it says it
#: again (sendAlerts in rules/manager.go, with resend-delay at its default of a minute).
_VALID_INTERVALS = 4
_LEAST_RESEND = 60.0
#: An evaluation may come so much later than its interval says.
_LATE = 1.5
#: The interval of a rule of which one sample is all that there is: Prometheus' default (seconds).
_DEFAULT_INTERVAL = 60.0
_OFFSET, _PRIME = 14695981039346656037, 1099511628211

Labels = Mapping[str, str]
_Key = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Sample:
    """One alert at one evaluation; times in seconds since 1970."""

    labels: Labels
    at: float
    #: Since when the condition holds; None where `ALERTS_FOR_STATE` is not kept.
    since: float | None = None


@dataclass(frozen=True)
class Delivered:
    """An alert, and when it would have arrived."""

    at: datetime
    alert: Alert


@dataclass
class _Occasion:
    """One alert from its first firing sample on."""

    labels: Labels
    start: float
    last: float
    since: float | None
    interval: float | None = None

    @property
    def every(self) -> float:
        """How often its rule is evaluated."""
        return self.interval or _DEFAULT_INTERVAL

    @property
    def valid(self) -> float:
        """How long Alertmanager takes it for firing after it was said last."""
        return _VALID_INTERVALS * max(self.every, _LEAST_RESEND)

    def goes_on(self, sample: Sample) -> bool:
        """Whether a later sample is of the same alert."""
        gap = sample.at - self.last
        if sample.since is None or self.since is None:
            return gap <= (_LATE * self.every if self.interval else self.valid)
        return sample.since == self.since and gap <= self.valid

    def ended(self, until: float, *, following: Sample | None = None) -> float | None:
        """Return when it ended; None while it may still be firing."""
        if following is not None and following.since is not None and following.since == self.since:
            return self.last + self.valid
        if following is None and until <= self.last + _LATE * self.every:
            return None
        return self.last + self.every


class Occasions:
    """Puts samples together; they come in order of time for each alert."""

    def __init__(self, *, begin: float, until: float) -> None:
        """Take what lies between two times (seconds since 1970)."""
        self._begin, self._until = begin, until
        self._open: dict[_Key, _Occasion] = {}
        self._delivered: list[Delivered] = []

    def take(self, samples: Iterable[Sample]) -> None:
        """Take more samples."""
        for sample in samples:
            key = tuple(sorted(sample.labels.items()))
            known = self._open.get(key)
            if known is not None and known.goes_on(sample):
                gap = sample.at - known.last
                if gap > 0:
                    known.interval = min(known.interval or gap, gap)
                    known.last = sample.at
                continue
            if known is not None:
                self._close(known, following=sample)
            self._open[key] = self._begun(sample)

    def delivered(self) -> list[Delivered]:
        """Return everything that would have arrived, in that order; nothing may be taken afterwards."""
        for occasion in self._open.values():
            self._close(occasion, following=None)
        return sorted(self._delivered, key=lambda one: (one.at, one.alert.fingerprint))

    def _begun(self, sample: Sample) -> _Occasion:
        # What fires at the very beginning began before it; since when the condition holds is the best that is known.
        start = sample.at
        if sample.since is not None and sample.since < self._begin and sample.at - self._begin < _DEFAULT_INTERVAL:
            start = sample.since
        return _Occasion(sample.labels, start, sample.at, sample.since)

    def _close(self, occasion: _Occasion, *, following: Sample | None) -> None:
        end = occasion.ended(self._until, following=following)
        arrived = max(occasion.start, self._begin)
        for at, is_over in _flushes(arrived, end, until=self._until):
            self._delivered.append(Delivered(_moment(at), _alert(occasion, end if is_over else None)))


def fingerprint(labels: Labels) -> str:
    """Return the name under which Alertmanager knows an alert: FNV-1a over names and values, each closed by 0xff.

    From LabelSet.Fingerprint in https://github.com/prometheus/common/tree/main/model.
    """
    number = _OFFSET
    for name in sorted(labels):
        for byte in b"%b\xff%b\xff" % (name.encode(), labels[name].encode()):
            number = (number ^ byte) * _PRIME % 2**64
    return f"{number:016x}"


def _flushes(start: float, end: float | None, *, until: float) -> Iterator[tuple[float, bool]]:
    """Yield when an Alertmanager tells of an alert, and whether it then tells that it is over.

    What is over before the first look is never told. The alert is taken to be the only one of its group.
    """
    at, told = start + GROUP_WAIT, None
    if end is not None and end <= at:
        return
    while at <= until:
        if end is not None and end <= at:
            yield at, True
            return
        if told is None or at - told >= REPEAT_INTERVAL:
            yield at, False
            told = at
        # From one that is told to the next that has something to tell; each look in between tells nothing.
        ahead = told + REPEAT_INTERVAL if end is None else min(end, told + REPEAT_INTERVAL)
        at += GROUP_INTERVAL * max(1, -(-(ahead - at) // GROUP_INTERVAL))


def _alert(occasion: _Occasion, end: float | None) -> Alert:
    status = AlertStatus.FIRING if end is None else AlertStatus.RESOLVED
    ends_at = None if end is None else _moment(end)
    return Alert(fingerprint(occasion.labels), status, _moment(occasion.start), ends_at, occasion.labels)


def _moment(seconds: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=round(seconds * 1000))
