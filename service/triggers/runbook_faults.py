"""What a rule asks of a runbook that the runbook cannot give."""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass

from service.app.finding import Severity
from service.app.ports import Runbooks
from service.app.runbook_yaml import Where
from service.domain.condition import Condition
from service.domain.errors import InvalidInput, NotFound, RunbookInvalid
from service.domain.param import check_param
from service.domain.rule import Rule
from service.domain.runbook import ApprovalKind, Runbook


@dataclass(frozen=True)
class RuleFault:
    """One fault of a rule, at a place below it."""

    where: Where
    #: One that begins small goes on after the key at its place.
    reason: str
    way_out: str
    severity: Severity = Severity.ERROR


def runbook_faults(rule: Rule, runbooks: Runbooks) -> Iterator[RuleFault]:
    """Yield what is wrong between a rule and its runbook as it is now."""
    try:
        runbook, _ = runbooks.get(rule.runbook)
    except NotFound:
        names = [one.name for one in runbooks.all()]
        yield RuleFault(("runbook",), f"There is no runbook `{rule.runbook}`.", _near(rule.runbook, names))
        return
    except RunbookInvalid as error:
        reason = f"The runbook `{rule.runbook}` has faults of its own: {error.reason}"
        yield RuleFault(("runbook",), reason, "Mend it; `unstick lint` has them all.")
        return
    yield from _params(rule, runbook)
    yield from _waived(rule, runbook)


def _params(rule: Rule, runbook: Runbook) -> Iterator[RuleFault]:
    known = {param.name: param for param in runbook.params}
    for name, value in rule.params.items():
        where: Where = ("params", name)
        if name not in known:
            yield RuleFault(where, f"The runbook {runbook.name} has no parameter `{name}`.", _near(name, list(known)))
        elif not isinstance(value, Condition):
            try:
                check_param(known[name], value)
            except InvalidInput as error:
                yield RuleFault(where, f"does not fit: {error.reason}", error.way_out)
    for name, param in known.items():
        if param.default is None and name not in rule.params:
            reason = f"The runbook {runbook.name} must be given a value of `{name}`."
            yield RuleFault(("params",), reason, f"Add it: {param.description}")


def _waived(rule: Rule, runbook: Runbook) -> Iterator[RuleFault]:
    steps = {step.id: step for step in runbook.steps}
    for number, name in enumerate(rule.waive):
        where: Where = ("waive", number)
        if name not in steps:
            yield RuleFault(
                where, f"The runbook {runbook.name} has no step `{name}` to waive.", _near(name, list(steps))
            )
        elif not steps[name].waivable:
            reason = f"The gate of step `{name}` of {runbook.name} can never be waived."
            yield RuleFault(where, reason, "Take it out: a person must answer it.")
        elif steps[name].approval is ApprovalKind.NONE:
            reason = f"Step `{name}` of {runbook.name} has no gate, so there is nothing to waive."
            yield RuleFault(where, reason, "Take it out.", Severity.WARNING)


def _near(word: str, known: list[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    if close:
        return f"Do you mean `{close[0]}`?"
    return f"There are {', '.join(known[:20])}." if known else "It takes none."
