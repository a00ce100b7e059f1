"""`unstick rules backtest`: what the rules of now would have done with the alerts of the database."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from typing import Annotated, Any

import typer

from service import main
from service.app.ports import Store
from service.app.service import Service
from service.cli.asking import Json
from service.cli.moments import parse_ago, parse_span
from service.cli.printing import print_json, print_table, say
from service.domain.delivery import AlertVerdict, RecordedAlert
from service.domain.replay import Replayed, Setting, replay
from service.domain.shown_text import shown_moment
from service.settings import load_settings

#: Alerts that are read at once.
_PAGE = 500


def backtest(
    *,
    since: Annotated[str, typer.Option(metavar="TIME", help="30d, 12h, or a time such as 2030-01-31T18:00Z.")] = "30d",
    run_lasts: Annotated[str, typer.Option(metavar="SPAN", help="How long a run is taken to have its node.")] = "10m",
    json: Json = False,
) -> None:
    """Judge the alerts that came in by the rules and limits of now, and say what would have been done.

    It reads the database beside the service, with the decision code of the service. Nothing is sent or recorded. A run
    that never was is taken to cure its node; nobody pauses, holds a node or resets the breaker meanwhile.
    """
    settings, clock = load_settings(), main.SystemClock()
    begin, lasts = parse_ago(since, now=clock.now()), parse_span(run_lasts)
    service = main.with_alerts(main.files_service(settings, clock=clock), settings)
    setting = _setting_of(service, lasts)
    with closing(main.open_store(settings, clock, must_exist=True)) as store:
        found = replay(_alerts(store, begin), setting)
    if json:
        print_json({"since": begin.isoformat(), "alerts": [_json(one) for one in found]})
        return
    _say(found, begin)


def _setting_of(service: Service, lasts: timedelta) -> Setting:
    acting = {runbook.name: runbook.acts for runbook in service.runbooks.all()}
    return Setting(service.rules.current(), service.policy.current(), service.inventory.current(), acting, lasts)


def _alerts(store: Store, since: datetime) -> Iterator[RecordedAlert]:
    last: RecordedAlert | None = None
    while True:
        page = store.read(lambda reader, after=last: reader.alerts_since(since, after=after, limit=_PAGE))  # type: ignore[misc]
        yield from page
        if len(page) < _PAGE:
            return
        last = page[-1]


def _say(found: tuple[Replayed, ...], begin: datetime) -> None:
    say(f"{len(found)} alerts since {shown_moment(begin)}")
    counts = Counter((one.rule, str(one.verdict)) for one in found)
    if counts:
        say()
        print_table(("rule", "verdict", "alerts"), [(*key, number) for key, number in sorted(counts.items())])
    ran = [one for one in found if one.verdict is AlertVerdict.RAN]
    if ran:
        say()
        rows = [(f"{one.judged_at:%Y-%m-%d %H:%M:%S}", one.rule, one.node, one.alert.name, one.alert.id) for one in ran]
        print_table(("would have started at", "rule", "node", "alert", "alert id"), rows)


def _json(one: Replayed) -> dict[str, Any]:
    return {
        "id": one.alert.id,
        "source": one.alert.source,
        "name": one.alert.name,
        "received_at": one.alert.received_at.isoformat(),
        "judged_at": one.judged_at.isoformat(),
        "verdict": one.verdict,
        "reason": one.reason,
        "rule": one.rule,
        "node": one.node,
        "was": one.alert.verdict,
    }
