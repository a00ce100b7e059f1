"""What a rule or a sweep asks of a runbook that the runbook cannot give."""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from service.app.finding import Severity
from service.app.ports import Runbooks
from service.app.runbook_yaml import Where
from service.domain.condition import Condition
from service.domain.errors import InvalidInput, NotFound, RunbookInvalid
from service.domain.param import check_param
from service.domain.rule import Rule
from service.domain.runbook import ApprovalKind, ParamValue, Runbook
from service.domain.sweep import Sweep, columns


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
    runbook = _runbook(rule.runbook, runbooks)
    if isinstance(runbook, RuleFault):
        yield runbook
        return
    yield from _params(rule.params, runbook)
    yield from _waived(rule, runbook)


def sweep_faults(sweep: Sweep, runbooks: Runbooks) -> Iterator[RuleFault]:
    """Yield what is wrong between a sweep and its runbook as it is now."""
    runbook = _runbook(sweep.runbook, runbooks)
    if isinstance(runbook, RuleFault):
        yield runbook
        return
    yield from _params(sweep.params, runbook)
    if not columns(runbook):
        reason = f"A dry run of {runbook.name} would show nothing: none of its steps has a check or a verify."
        yield RuleFault(("runbook",), reason, "Name a runbook that asks for something.")


def _runbook(name: str, runbooks: Runbooks) -> Runbook | RuleFault:
    try:
        return runbooks.get(name)[0]
    except NotFound:
        names = [one.name for one in runbooks.all()]
        return RuleFault(("runbook",), f"There is no runbook `{name}`.", _near(name, names))
    except RunbookInvalid as error:
        reason = f"The runbook `{name}` has faults of its own: {error.reason}"
        return RuleFault(("runbook",), reason, "Mend it; `unstick lint` has them all.")


def _params(given: Mapping[str, ParamValue | Condition], runbook: Runbook) -> Iterator[RuleFault]:
    known = {param.name: param for param in runbook.params}
    for name, value in given.items():
        where: Where = ("params", name)
        if name not in known:
            yield RuleFault(where, f"The runbook {runbook.name} has no parameter `{name}`.", _near(name, list(known)))
        elif not isinstance(value, Condition):
            try:
                check_param(known[name], value)
            except InvalidInput as error:
                yield RuleFault(where, f"does not fit: {error.reason}", error.way_out)
    for name, param in known.items():
        if param.default is None and name not in given:
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
