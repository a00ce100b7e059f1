"""`unstick rules backtest`: what the rules of now would have done with alerts of the past."""

from collections import Counter
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from service import main
from service.app.service import Service
from service.cli.asking import Json
from service.cli.moments import parse_ago, parse_span
from service.cli.past_alerts import Question, prometheus_alerts, stored_alerts
from service.cli.printing import print_json, print_table, say
from service.domain.delivery import AlertVerdict
from service.domain.errors import InvalidInput
from service.domain.replay import Replayed, Setting, replay
from service.domain.shown_text import shown_moment
from service.settings import Settings, load_settings

_SecretFile = typer.Option(metavar="FILE", show_default=False)


def backtest(
    *,
    since: Annotated[str, typer.Option(metavar="TIME", help="30d, 12h, or a time such as 2030-01-31T18:00Z.")] = "30d",
    run_lasts: Annotated[str, typer.Option(metavar="SPAN", help="How long a run is taken to have its node.")] = "10m",
    prometheus: Annotated[
        str | None, typer.Option(metavar="URL", show_default=False, help="Take the alerts that fired there instead.")
    ] = None,
    source: Annotated[
        str | None, typer.Option(metavar="NAME", show_default=False, help="The source that would have sent these.")
    ] = None,
    match: Annotated[str, typer.Option(metavar="MATCHERS", help='Of these only those with alertname="X".')] = "",
    label: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="One of that Prometheus' external_labels.")
    ] = None,
    token_file: Annotated[Path | None, _SecretFile] = None,
    basic_file: Annotated[Path | None, _SecretFile] = None,
    json: Json = False,
) -> None:
    """Judge the alerts that came in by the rules and limits of now, and say what would have been done.

    It reads the database beside the service, or a Prometheus, with the decision code of the service. Nothing is sent or
    recorded. A run that never was is taken to cure its node; nobody pauses, holds or drains a node, or resets the
    breaker meanwhile. A file for a Prometheus that asks who we are holds a bearer token, or NAME:PASSWORD.
    """
    if prometheus is None and (source or match or label or token_file or basic_file):
        raise InvalidInput("These options say what is asked of a Prometheus.", "Give --prometheus URL.")
    question = prometheus and Question(prometheus, source, match, label or (), token_file, basic_file)
    settings, clock = load_settings(), main.SystemClock()
    now = clock.now()
    begin, lasts = parse_ago(since, now=now), parse_span(run_lasts)
    setting = _setting_of(main.with_alerts(main.files_service(settings, clock=clock), settings), lasts)
    if question:
        found = replay(prometheus_alerts(question, setting.rules, begin=begin, until=now), setting)
    else:
        found = _replay_stored(settings, setting, begin=begin)
    if json:
        print_json({"since": begin.isoformat(), "alerts": [_json(one) for one in found]})
        return
    _say(found, begin)


def _replay_stored(settings: Settings, setting: Setting, *, begin: datetime) -> tuple[Replayed, ...]:
    with closing(main.open_store(settings, main.SystemClock(), must_exist=True)) as store:
        return replay(stored_alerts(store, begin), setting)


def _setting_of(service: Service, lasts: timedelta) -> Setting:
    acting = {runbook.name: runbook.acts for runbook in service.runbooks.all()}
    return Setting(service.rules.current(), service.policy.current(), service.inventory.current(), acting, lasts)


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
