"""Sources of nodes as a file has them, short."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from service.domain.node import Controller, Endpoint, ExecutorKind, SourceKind, SourceState
from service.inventory.merged import SourceReport
from service.inventory.source import Found, Look, Question, SourceAnswer, SourceConfig, SsmQuestion, Template
from service.inventory.watch import SourceWatch

NOW = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)
HEAD = Controller("head", Endpoint("head", ExecutorKind.LOCAL, "head"))
BY_SSM = Template(Endpoint("", ExecutorKind.SSM, ""))
BY_SSH = Template(Endpoint("", ExecutorKind.SSH, "", key_file="/k"))
ANYBODY = SsmQuestion(None, None)


def instance(number: int) -> str:
    return f"i-{number:017x}"


def config(
    name: str = "fleet",
    *,
    question: Question = ANYBODY,
    template: Template = BY_SSM,
    refresh: timedelta = timedelta(milliseconds=20),
) -> SourceConfig:
    return SourceConfig(name, SourceKind.SSM, question, template, refresh, timedelta(minutes=10))


def watch(look: Look, **changes: object) -> SourceWatch:
    return SourceWatch(replace(config(), **changes), look, now=lambda: NOW, chance=lambda: 0.5)  # type: ignore[arg-type]


def answer(*found: Found, refused: Mapping[str, str] | None = None) -> SourceAnswer:
    return SourceAnswer({one.name: one for one in found}, refused or {})


def state(name: str, *, answered_at: datetime | None = NOW, nodes: int = 0, problem: str | None = None) -> SourceState:
    return SourceState(name, SourceKind.SSM, answered_at, timedelta(minutes=10), problem=problem, nodes=nodes)


def report(
    name: str, *found: Found, template: Template = BY_SSM, refused: Mapping[str, str] | None = None
) -> SourceReport:
    return SourceReport(template, answer(*found, refused=refused), state(name, nodes=len(found)))
