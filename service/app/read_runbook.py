"""Turns the text of one runbook into a Runbook, or into everything that is wrong with it."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from service.app.entry_faults import empty_values, explain
from service.app.finding import Finding, Severity
from service.app.ports import RunbookSource
from service.app.runbook_rules import Fault, faults
from service.app.runbook_schema import (
    Entry,
    EscalationEntry,
    LimitsEntry,
    ParamEntry,
    RetryEntry,
    RunbookFile,
    StepEntry,
    shown,
)
from service.app.runbook_yaml import Document, Where, read_document
from service.domain.condition import Condition, compile_condition
from service.domain.errors import InvalidInput
from service.domain.param import check_param
from service.domain.pattern import check_pattern
from service.domain.runbook import (
    CONDITION_NAMES,
    Escalation,
    Limits,
    Param,
    ParamType,
    Retry,
    Runbook,
    Step,
)
from service.domain.script import sha256


@dataclass(frozen=True)
class Examined:
    """What was made of one file."""

    #: None when a finding is an error.
    runbook: Runbook | None
    findings: tuple[Finding, ...]
    #: None when the text is not YAML.
    document: Document | None = None

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Return the findings for which the file is refused."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.ERROR)


def examine(source: RunbookSource, file: str) -> Examined:
    """Return the runbook of a text and what is to be said of it. Raises nothing, whatever the text is."""
    document = read_document(source.text, file)
    if isinstance(document, Finding):
        return Examined(None, (document,))
    return examine_document(document, source, file=file)


def examine_document(document: Document, source: RunbookSource, *, file: str) -> Examined:
    """Return the same for a text that was read already."""
    reader = _Reader(document, file)
    entry = reader.entry()
    runbook = None if entry is None else reader.runbook(entry, source)
    if runbook is None:
        return Examined(None, tuple(sorted(set(reader.findings))), document)
    findings = tuple(sorted(set(to_findings(faults(runbook, document), document, file=file))))
    examined = Examined(runbook, findings, document)
    return Examined(None, findings, document) if examined.errors else examined


def to_findings(found: Iterable[Fault], document: Document, *, file: str) -> list[Finding]:
    """Return faults with their lines, in sentences that name the step, parameter or key."""
    return [
        Finding(
            file,
            fault.line or document.line(fault.where),
            _sentence(document, fault.where, fault.reason),
            fault.way_out,
            fault.severity,
        )
        for fault in found
    ]


class _Reader:
    """Collects the findings of one file on the way from values to a Runbook."""

    def __init__(self, document: Document, file: str) -> None:
        self.document = document
        self.file = file
        self.findings: list[Finding] = []

    def add(self, where: Where, reason: str, way_out: str) -> None:
        self.findings += to_findings([Fault(where, reason, way_out)], self.document, file=self.file)

    def entry(self) -> RunbookFile | None:
        """Return the file's values in their types, or None after noting what does not fit."""
        for where in empty_values(self.document.value, ()):
            self.add(where, "is empty.", "Give it a value, or remove the key.")
        if not isinstance(self.document.value, dict):
            self.add((), "The file is not a mapping of keys to values.", "Begin with `schema: 1`.")
        if self.findings:
            return None
        try:
            return RunbookFile.model_validate(self.document.value)
        except ValidationError as error:
            for details in error.errors(include_url=False):
                self._add_details(details)
            return None

    def _add_details(self, details: ErrorDetails) -> None:
        where = tuple(key for key in details["loc"] if key != "[key]")
        entry = _entry_of(where[:-1]) if len(where) > 1 else RunbookFile
        reason, way_out = explain(details, where, entry=entry)
        self.add(where, reason, way_out)

    def runbook(self, entry: RunbookFile, source: RunbookSource) -> Runbook | None:
        """Return the domain's value, or None after noting what is wrong in itself."""
        stem = PurePath(self.file).name.removesuffix(".yaml")
        if entry.name != stem:
            self.add(("name",), f"is {entry.name}, but the file is {stem}.yaml.", "Give both the same name.")
        params = tuple(self._param(name, param) for name, param in entry.params.items())
        steps = tuple(self._step(step, ("steps", number)) for number, step in enumerate(entry.steps))
        escalations = tuple(
            Escalation(goal.runbook, self._condition(goal.when, ("escalate_to", number, "when")))
            for number, goal in enumerate(entry.escalate_to)
        )
        if self.findings:
            return None
        return Runbook(
            name=entry.name,
            title=entry.title,
            owner=entry.owner,
            description=entry.description,
            steps=steps,
            file_sha256=sha256(source.text),
            prevention=entry.prevention,
            known_not_to_cure=tuple(entry.known_not_to_cure),
            needs=tuple(entry.needs),
            params=params,
            limits=_limits(entry.limits),
            escalate_to=escalations,
            prelude=source.prelude,
            revision=source.revision,
        )

    def _step(self, entry: StepEntry, where: Where) -> Step:
        return Step(
            id=entry.id,
            title=entry.title,
            timeout=entry.timeout,
            check=entry.check,
            run=entry.run,
            verify=entry.verify,
            where=entry.where,
            when=self._condition(entry.when, (*where, "when")),
            read_only=entry.read_only,
            always=entry.always,
            undoes=entry.undoes,
            reboots=entry.reboots,
            reads=tuple(entry.reads),
            approval=entry.approval,
            waivable=entry.waivable,
            needs_reason=entry.needs_reason,
            within=entry.within,
            retry=_retry(entry.retry),
            on_failure=entry.on_failure,
            prelude=None if entry.prelude is None else tuple(entry.prelude),
        )

    def _condition(self, text: str | None, where: Where) -> Condition | None:
        if text is None:
            return None
        try:
            return compile_condition(text.strip(), CONDITION_NAMES)
        except InvalidInput as error:
            self.add(where, error.reason, error.way_out)
            return None

    def _param(self, name: str, entry: ParamEntry) -> Param:
        where = ("params", name)
        for key, only in _BOUNDS.items():
            if getattr(entry, key) is not None and entry.type is not only:
                self.add((*where, key), f"does not bind {entry.type}.", f"It is for a parameter of type {only}.")
        if entry.pattern is not None:
            self._pattern((*where, "pattern"), entry.pattern)
        if entry.min is not None and entry.max is not None and entry.min > entry.max:
            self.add((*where, "min"), "is greater than `max`.", "Exchange them.")
        given: list[tuple[Where, object]] = [] if entry.default is None else [((*where, "default"), entry.default)]
        given += [((*where, "choices", number), choice) for number, choice in enumerate(entry.choices or [])]
        param = Param(
            name,
            entry.type,
            entry.description,
            default=entry.default,
            pattern=entry.pattern,
            max_length=entry.max_length or Param.max_length,
            choices=tuple(entry.choices or ()),
            min=entry.min,
            max=entry.max,
        )
        if not self.findings:
            for place, value in given:
                self._value(param, value, where=place)
        return param

    def _pattern(self, where: Where, pattern: str) -> None:
        try:
            check_pattern(pattern)
        except InvalidInput as error:
            self.add(where, error.reason, error.way_out)

    def _value(self, param: Param, value: object, *, where: Where) -> None:
        """Note a default or a choice that is not of the type, or that its own bounds would refuse."""
        if type(value) is not _TYPES[param.type]:
            self.add(where, f"is {shown(value)}, but the type is {param.type}.", _WRITING[param.type])
            return
        try:
            check_param(param, value)
        except InvalidInput as error:
            self.add(where, f"does not fit: {error.reason}", error.way_out)


_BOUNDS = {
    "pattern": ParamType.STRING,
    "max_length": ParamType.STRING,
    "min": ParamType.INTEGER,
    "max": ParamType.INTEGER,
}
_TYPES = {ParamType.STRING: str, ParamType.INTEGER: int, ParamType.BOOLEAN: bool}
_WRITING = {
    ParamType.STRING: "Put it in quotes.",
    ParamType.INTEGER: "Write a whole number such as 7, without quotes.",
    ParamType.BOOLEAN: "Write true or false, without quotes.",
}


def _retry(entry: RetryEntry | None) -> Retry | None:
    return None if entry is None else Retry(entry.attempts, entry.delay, entry.backoff)


def _limits(entry: LimitsEntry | None) -> Limits:
    if entry is None:
        return Limits()
    return Limits(
        concurrent_nodes=entry.concurrent_nodes,
        canary=entry.canary,
        max_failures=entry.max_failures,
        cooldown=entry.cooldown,
        approval_expires=entry.approval_expires,
    )


def _entry_of(where: Where) -> type[Entry]:
    match where:
        case ("steps", int(), "retry", *_):
            return RetryEntry
        case ("steps", int(), *_):
            return StepEntry
        case ("params", str(), *_):
            return ParamEntry
        case ("limits", *_):
            return LimitsEntry
        case ("escalate_to", int(), *_):
            return EscalationEntry
        case _:
            return RunbookFile


def _sentence(document: Document, where: Where, reason: str) -> str:
    """Return a reason as a sentence: one that begins small is about the key at its place."""
    subject = ""
    match where:
        case ("steps", int(number), *_):
            subject = f"step {_step_name(document, number)}: "
        case ("params", str(name), _, *_):
            subject = f"parameter {ascii(name)[1:-1]}: "
        case _:
            pass
    key = next((ascii(part)[1:-1] for part in reversed(where) if isinstance(part, str)), "")
    if reason[:1].islower() and key:
        reason = f"`{key}` {reason}"
    sentence = f"{subject}{reason}"
    return sentence[:1].upper() + sentence[1:]


def _step_name(document: Document, number: int) -> str:
    value = document.value
    steps = value.get("steps") if isinstance(value, dict) else None
    step = steps[number] if isinstance(steps, list) and number < len(steps) else None
    name = step.get("id") if isinstance(step, dict) else None
    return ascii(name)[1:-1] if isinstance(name, str) else str(number + 1)
