"""Which rule answers an alert, and what it asks for: pure, so that a test of rules decides as the service does."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from service.domain.alert import Alert
from service.domain.condition import Condition
from service.domain.errors import InvalidInput
from service.domain.node import Inventory
from service.domain.rule import Rule, nodes_named
from service.domain.runbook import ParamValue

Facts = Mapping[str, object]
#: What an expression may ask of `alert`.
ALERT_FIELDS = ("labels", "annotations", "status", "source", "fingerprint", "starts_at", "link")


@dataclass(frozen=True)
class RuleAnswer:
    """What one rule says of one alert."""

    rule: str
    matches: bool
    #: Why it does not match, in one sentence; empty when it does.
    reason: str = ""


@dataclass(frozen=True)
class Wanted:
    """What a rule that matches asks for."""

    #: None: no node, or not one alone; `reason` says why.
    node: str | None
    params: Mapping[str, ParamValue] = field(default_factory=dict)
    #: Why it cannot be done, in one sentence; empty when it can. With a node it is the parameters that have no value.
    reason: str = ""


def facts_of(alert: Alert, *, source: str) -> Facts:
    """Return what the expressions of a rule may use; a label that is not there is an error when it is asked for."""
    return {
        "alert": {
            "source": source,
            "status": str(alert.status),
            "fingerprint": alert.fingerprint,
            "labels": dict(alert.labels),
            "annotations": dict(alert.annotations),
            "starts_at": alert.starts_at.isoformat(),
            "link": alert.link,
        }
    }


def answer(rule: Rule, facts: Facts, *, source: str) -> RuleAnswer:
    """Return whether a rule matches. One that cannot be evaluated does not, and says why."""
    if rule.sources and source not in rule.sources:
        return RuleAnswer(rule.name, False, f"It is for alerts of {', '.join(rule.sources)}, not of {source}.")
    try:
        holds = rule.when.holds(facts)
    except InvalidInput as error:
        return RuleAnswer(rule.name, False, error.reason)
    return RuleAnswer(rule.name, holds, "" if holds else f"`{rule.when.text}` is false.")


def first_match(rules: Iterable[Rule], facts: Facts, *, source: str) -> Rule | None:
    """Return the first rule that matches; the order is that of the file."""
    return next((rule for rule in rules if answer(rule, facts, source=source).matches), None)


def wanted(rule: Rule, facts: Facts, inventory: Inventory) -> Wanted:
    """Return node and parameters that a rule asks for; what is unknown, or means several nodes, is none."""
    try:
        text = rule.node.give_text(facts)
    except InvalidInput as error:
        return Wanted(None, reason=f"The rule {rule.name} finds no node: {error.reason}")
    names = nodes_named(inventory, text, rule.node_by)
    if len(names) != 1:
        return Wanted(None, reason=_no_node(rule, text, names=names))
    try:
        return Wanted(names[0], {name: _param(name, value, facts) for name, value in rule.params.items()})
    except InvalidInput as error:
        return Wanted(names[0], reason=error.reason)


def _no_node(rule: Rule, text: str, *, names: tuple[str, ...]) -> str:
    by = rule.node_by.value.replace("_", " ")
    if names:
        return f"{text!r} means several nodes by their {by}: {', '.join(names[:5])}."
    return f"The inventory knows no node whose {by} is {text!r}."


def _param(name: str, value: ParamValue | Condition, facts: Facts) -> ParamValue:
    if not isinstance(value, Condition):
        return value
    try:
        given = value.value(facts)
    except InvalidInput as error:
        raise InvalidInput(f"The parameter {name} has no value: {error.reason}") from error
    if not isinstance(given, str | int):
        raise InvalidInput(f"The parameter {name} would be neither text, a whole number, true nor false.")
    return given
