"""`unstick rules`: what the reviewed file of rules says, and what it would do. On files alone, with no service."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from service import main
from service.app.explain_alert import Explained, explain_alert
from service.app.finding import Severity
from service.app.load_runbooks import RunbookFolder
from service.app.service import Service
from service.cli.asking import Json
from service.cli.backtest import backtest
from service.cli.printing import print_json, say, tell
from service.domain.alert import Parsed
from service.domain.errors import InvalidInput, NotFound
from service.domain.rule import AlertSource
from service.domain.shown_text import shown_moment
from service.domain.sweep import SOURCE
from service.settings import load_settings
from service.triggers.rules_file import lint_rules
from service.triggers.sweep_reader import swept_source

_MOST_BYTES = 64 * 1024 * 1024

commands = typer.Typer(
    help="The rules by which alerts start runs.", no_args_is_help=True, rich_markup_mode=None, add_completion=False
)


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(commands, name="rules")


commands.command()(backtest)


@commands.command()
def lint(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", show_default=False, help="The rules; those in UNSTICK_CONFIG.")
    ] = None,
) -> None:
    """Say what is wrong in a file of rules, with line and way to mend it. Exits 1 when something is."""
    settings = load_settings()
    path = file or settings.config / "rules.yaml"
    findings = lint_rules(path, RunbookFolder(settings.runbooks_folder))
    for finding in findings:
        say(str(finding))
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    tell(f"{path}: {errors} errors, {len(findings) - errors} warnings")
    raise typer.Exit(1 if errors else 0)


@commands.command(name="test")
def explain_payload(
    *,
    source: Annotated[str, typer.Option(metavar="NAME", show_default=False, help="The source that would send it.")],
    header: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A header of the delivery; signatures are not asked.")
    ] = None,
    json: Json = False,
) -> None:
    """Say what the rules would do with the payload on standard input. Nothing is sent or recorded.

    Rails (dedup, cooldown, blast radius, pause) need the record and are not asked: `unstick rules backtest` asks them.
    """
    service = main.with_alerts(main.files_service(load_settings(), clock=main.SystemClock()), load_settings())
    parsed = _parsed(service, _source(service, source), header or [])
    explained = [explain_alert(service, alert, source=source) for alert in parsed.alerts]
    if json:
        print_json({**_delivery_json(parsed), "alerts": [_json(one) for one in explained]})
        return
    _say_delivery(parsed)
    for number, one in enumerate(explained):
        if number:
            say()
        _say(one)


def _source(service: Service, name: str) -> AlertSource:
    if name == SOURCE:
        return swept_source()
    sources = service.rules.current().sources
    if name not in sources:
        raise NotFound(f"There is no source {name}.", f"The sources are: {', '.join([*sources, SOURCE])}.")
    return sources[name]


def _parsed(service: Service, source: AlertSource, header: list[str]) -> Parsed:
    body = sys.stdin.buffer.read(_MOST_BYTES + 1)
    if len(body) > _MOST_BYTES:
        raise InvalidInput(f"The payload has more than {_MOST_BYTES} bytes.", "Give less of it.")
    headers: dict[str, str] = {}
    for word in header:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise InvalidInput(f"--header {word} has no value.", "Write --header NAME=VALUE.")
        headers[name.lower()] = value
    return service.receivers.parse(source, body, headers=headers, now=service.clock.now())


def _say_delivery(parsed: Parsed) -> None:
    if parsed.ignored:
        say(f"Nothing in it is a fault: {parsed.ignored}")
    if parsed.omitted:
        say(f"The sender has left out {parsed.omitted} alerts.")
    for one in parsed.set_aside:
        say(f"alert {one.index} is set aside: {one.reason}")


def _say(one: Explained) -> None:
    alert = one.alert
    name = alert.labels.get("alertname") or alert.fingerprint
    say(f"alert {name} ({alert.status} since {shown_moment(alert.starts_at)}, fingerprint {alert.fingerprint})")
    for said in one.answers:
        if one.rule is not None and said.rule == one.rule.name:
            say(f"  rule {said.rule}: it matches, and decides")
        else:
            say(f"  rule {said.rule}: {'it matches too, and comes later' if said.matches else said.reason}")
    if one.rule is not None and one.node is not None:
        say(f"  node {one.node} (by {one.rule.node_by})")
    if one.rule is None or one.reason:
        say(f"  starts nothing: {one.reason}")
        return
    say(f"  runbook {one.rule.runbook}{', as a dry run' if one.rule.dry_run else ''}")
    for key, value in one.params.items():
        say(f"  {key} = {value}")
    say(f"  plan digest {one.digest}")
    say(f"  waived gates: {', '.join(one.rule.waive) or 'none'}")


def _delivery_json(parsed: Parsed) -> dict[str, Any]:
    aside = [{"index": one.index, "reason": one.reason} for one in parsed.set_aside]
    return {"ignored": parsed.ignored, "omitted": parsed.omitted, "set_aside": aside}


def _json(one: Explained) -> dict[str, Any]:
    rule = one.rule
    return {
        "fingerprint": one.alert.fingerprint,
        "status": one.alert.status,
        "starts_at": one.alert.starts_at.isoformat(),
        "labels": dict(one.alert.labels),
        "answers": [{"rule": said.rule, "matches": said.matches, "reason": said.reason} for said in one.answers],
        "rule": rule.name if rule is not None else None,
        "node": one.node,
        "runbook": rule.runbook if rule is not None else None,
        "dry_run": rule.dry_run if rule is not None else None,
        "params": dict(one.params),
        "digest": one.digest or None,
        "waived": list(rule.waive) if rule is not None else [],
        "starts": not one.reason,
        "reason": one.reason,
    }
