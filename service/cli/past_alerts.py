"""Where a backtest has its alerts from: the database of the service, or the history of a Prometheus."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from service.app.ports import Store
from service.app.receive_alerts import alerts_of
from service.domain.alert import AlertSourceKind, Parsed
from service.domain.delivery import Delivery, DeliveryState, RecordedAlert
from service.domain.errors import InvalidInput, NotFound
from service.domain.rule import RuleSet
from service.triggers.prometheus_history import Access, PrometheusHistory, Wanted
from service.triggers.prometheus_series import Delivered

#: Alerts that are read at once.
_PAGE = 500


@dataclass(frozen=True)
class Question:
    """Which Prometheus is asked for what, as it was typed."""

    url: str
    source: str | None = None
    match: str = ""
    labels: Sequence[str] = ()
    token_file: Path | None = None
    basic_file: Path | None = None


def stored_alerts(store: Store, since: datetime) -> Iterator[RecordedAlert]:
    """Yield the alerts of the database that came since a time, oldest first."""
    last: RecordedAlert | None = None
    while True:
        page = store.read(lambda reader, after=last: reader.alerts_since(since, after=after, limit=_PAGE))  # type: ignore[misc]
        yield from page
        if len(page) < _PAGE:
            return
        last = page[-1]


def prometheus_alerts(question: Question, rules: RuleSet, *, begin: datetime, until: datetime) -> list[RecordedAlert]:
    """Return the alerts of a Prometheus as their source would have delivered them; errors say what is wrong."""
    source = _source(rules, question.source)
    wanted = Wanted(begin, until, question.match, _pairs(question.labels))
    with closing(PrometheusHistory(_access(question))) as history:
        delivered = history.delivered(wanted)
    return [_recorded(one, number, source=source) for number, one in enumerate(delivered)]


def _recorded(one: Delivered, number: int, *, source: str) -> RecordedAlert:
    delivery = Delivery(f"{number:07d}", source, one.at, DeliveryState.ACCEPTED, f"source:{source}")
    return alerts_of(delivery, Parsed((one.alert,)))[0]


def _source(rules: RuleSet, name: str | None) -> str:
    known = [source.name for source in rules.sources.values() if source.kind is AlertSourceKind.ALERTMANAGER]
    told = f"The sources of the kind alertmanager are: {', '.join(known) or 'none'}."
    if name is None:
        if len(known) != 1:
            raise InvalidInput("It is not said which source the alerts would have come from.", f"Give --source. {told}")
        return known[0]
    if name not in rules.sources:
        raise NotFound(f"There is no source {name}.", told)
    return name


def _access(question: Question) -> Access:
    token = None if question.token_file is None else _text_of(question.token_file)
    if question.basic_file is None:
        return Access(question.url, token)
    name, colon, password = _text_of(question.basic_file).partition(":")
    if not colon:
        raise InvalidInput(f"{question.basic_file} holds no NAME:PASSWORD.", "Write both in one line.")
    return Access(question.url, token, (name, password))


def _text_of(file: Path) -> str:
    try:
        text = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{file} cannot be read: {error}.", "Name a file that holds it in one line.") from error
    # A line end would end the header that carries it.
    if not text or not text.isascii() or not text.isprintable():
        raise InvalidInput(f"{file} does not hold one line.", "Name a file that holds it in one line.")
    return text


def _pairs(words: Sequence[str]) -> Mapping[str, str]:
    pairs = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name or not equals:
            raise InvalidInput(f"--label {word} has no value.", "Write --label NAME=VALUE.")
        pairs[name] = value
    return pairs
