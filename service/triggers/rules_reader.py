"""Turns the values of rules.yaml into sources, rules and sweeps, or into everything that is wrong with them."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from service.app.entry_faults import empty_values, explain
from service.app.finding import Finding, Severity
from service.app.ports import Runbooks
from service.app.runbook_schema import Entry
from service.app.runbook_yaml import Document, Where
from service.domain.alert import AlertSourceKind
from service.domain.condition import Condition, compile_condition
from service.domain.errors import InvalidInput
from service.domain.match import ALERT_FIELDS
from service.domain.rule import RULE_NAMES, USUAL_ATTEMPTS, AlertSource, AttemptBudget, Rule, RuleSet
from service.domain.runbook import ParamValue
from service.domain.sweep import SOURCE, Sweep
from service.triggers.rules_schema import (
    SOURCE_ENTRIES,
    AlertmanagerEntry,
    AttemptsEntry,
    CelEntry,
    CloudWatchEntry,
    GenericEntry,
    GrafanaEntry,
    PagerDutyEntry,
    RuleEntry,
    RulesFile,
    SelectorEntry,
    SourceEntry,
    SweepEntry,
)
from service.triggers.runbook_faults import RuleFault, runbook_faults, sweep_faults
from service.triggers.sweep_reader import read_sweep

#: What the expressions of a generic source may use.
_OF_A_BODY = frozenset({"body"})
_OF_AN_ITEM = frozenset({"item"})


@dataclass(frozen=True)
class ExaminedRules:
    """What was made of one file."""

    #: None when a finding is an error.
    rules: RuleSet | None
    findings: tuple[Finding, ...]


def examine_rules(document: Document, file: str, *, folder: Path, runbooks: Runbooks) -> ExaminedRules:
    """Return the rules of a file and what is to be said of them; names of secret files are meant from `folder`."""
    reader = _Reader(document, file, folder)
    entry = reader.entry()
    rules = None if entry is None else reader.rules(entry, runbooks)
    findings = tuple(sorted(set(reader.findings)))
    wrong = any(finding.severity is Severity.ERROR for finding in findings)
    return ExaminedRules(None if wrong else rules, findings)


@dataclass
class _Reader:
    """Collects the findings of one file on the way from values to a RuleSet."""

    document: Document
    file: str
    folder: Path
    findings: list[Finding] = field(default_factory=list)

    def add(self, where: Where, reason: str, way_out: str, *, severity: Severity = Severity.ERROR) -> None:
        line = self.document.line(where)
        self.findings.append(Finding(self.file, line, self._sentence(where, reason), way_out, severity))

    def entry(self) -> RulesFile | None:
        """Return the file's values in their types, or None after noting what does not fit."""
        for where in empty_values(self.document.value, ()):
            self.add(where, "is empty.", "Give it a value, or remove the key.")
        if not isinstance(self.document.value, dict):
            self.add((), "The file is not a mapping of keys to values.", "Begin with `rules:`.")
        if self.findings:
            return None
        try:
            return RulesFile.model_validate(self.document.value)
        except ValidationError as error:
            for details in error.errors(include_url=False):
                self._add_details(details)
            return None

    def rules(self, entry: RulesFile, runbooks: Runbooks) -> RuleSet:
        """Return sources, rules and sweeps; what is wrong goes to `findings`."""
        if SOURCE in entry.sources:
            self.add(("sources", SOURCE), "is the name of what sweeps find.", "Choose another name.")
        sources = {name: self._source(name, source) for name, source in entry.sources.items()}
        self._judge_names("rules", [one.name for one in entry.rules], word="rule")
        found = []
        for number, one in enumerate(entry.rules):
            self._judge_sources(one, number, known=sources)
            rule = self._rule(one, number)
            found.append(rule)
            self._add_faults(runbook_faults(rule, runbooks), ("rules", number))
        return RuleSet(sources, tuple(found), self._sweeps(entry.sweeps, runbooks))

    def _sweeps(self, entries: Sequence[SweepEntry], runbooks: Runbooks) -> tuple[Sweep, ...]:
        self._judge_names("sweeps", [one.name for one in entries], word="sweep")
        found = []
        for number, one in enumerate(entries):
            sweep = read_sweep(one)
            if isinstance(sweep, RuleFault):
                self._add_faults([sweep], ("sweeps", number))
                continue
            found.append(sweep)
            self._add_faults(sweep_faults(sweep, runbooks), ("sweeps", number))
        return tuple(found)

    def _judge_names(self, key: str, names: Sequence[str], *, word: str) -> None:
        first: dict[str, int] = {}
        for number, name in enumerate(names):
            if first.setdefault(name, number) != number:
                line = self.document.line((key, first[name]))
                self.add((key, number, "name"), f"is that of the {word} in line {line} too.", "Choose another name.")

    def _source(self, name: str, entry: SourceEntry) -> AlertSource:
        where = ("sources", name)
        kind = AlertSourceKind(entry.kind)
        match entry:
            case AlertmanagerEntry():
                return AlertSource(name, kind, token=entry.token)
            case GrafanaEntry() | PagerDutyEntry():
                return AlertSource(name, kind, secret_files=self._paths(entry.secret_files))
            case CloudWatchEntry():
                return AlertSource(name, kind, topics=tuple(entry.topics))
            case GenericEntry():
                given = {key: getattr(entry, key) for key in entry.model_fields_set - {"kind", "secret_files", "token"}}
                mapping = {
                    key: self._compiled((*where, key), text, _OF_A_BODY if key == "alerts" else _OF_AN_ITEM)
                    for key, text in given.items()
                }
                secret_files = self._paths(entry.secret_files or ())
                return AlertSource(name, kind, token=entry.token, secret_files=secret_files, mapping=mapping)

    def _paths(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(str((self.folder / name).absolute()) for name in names)

    def _judge_sources(self, entry: RuleEntry, number: int, *, known: dict[str, AlertSource]) -> None:
        for place, name in enumerate(entry.sources):
            if name not in known and name != SOURCE:
                way_out = near(name, known) or "Write it under `sources`."
                self.add(("rules", number, "sources", place), f"There is no source `{name}`.", way_out)

    def _rule(self, entry: RuleEntry, number: int) -> Rule:
        where = ("rules", number)
        return Rule(
            entry.name,
            self._when((*where, "when"), entry),
            entry.runbook,
            self._of_alert((*where, "node"), entry.node),
            node_by=entry.node_by,
            sources=tuple(entry.sources),
            params={name: self._given((*where, "params", name), value) for name, value in entry.params.items()},
            waive=tuple(entry.waive),
            dedup=entry.dedup,
            cooldown=entry.cooldown,
            max_age=entry.max_age,
            attempts=_budget(entry),
            dry_run=entry.dry_run,
        )

    def _when(self, where: Where, entry: RuleEntry) -> Condition:
        compiled = self._of_alert(where, entry.when)
        if compiled.program is not None and not compiled.references and not entry.sources and not entry.dry_run:
            reason = "asks nothing of the alert, so this rule answers every alert of every source."
            way_out = "Ask for a label, name `sources`, or try it with `dry_run: true`."
            self.add(where, reason, way_out, severity=Severity.WARNING)
        return compiled

    def _given(self, where: Where, value: ParamValue | CelEntry) -> ParamValue | Condition:
        return self._of_alert((*where, "cel"), value.cel) if isinstance(value, CelEntry) else value

    def _of_alert(self, where: Where, text: str) -> Condition:
        compiled = self._compiled(where, text, RULE_NAMES)
        for _, used in sorted(compiled.references, key=str):
            if used is not None and used not in ALERT_FIELDS:
                way_out = near(used, ALERT_FIELDS) or "A label is asked for as alert.labels.NAME."
                self.add(where, f"asks for alert.{used}, which no alert has.", way_out)
        return compiled

    def _compiled(self, where: Where, text: str, names: frozenset[str]) -> Condition:
        try:
            return compile_condition(text.strip(), names)
        except InvalidInput as error:
            self.add(where, error.reason, error.way_out)
            return Condition(text, None)

    def _add_faults(self, faults: Iterable[RuleFault], at: Where) -> None:
        for fault in faults:
            self.add((*at, *fault.where), fault.reason, fault.way_out, severity=fault.severity)

    def _add_details(self, details: ErrorDetails) -> None:
        where = _place(details["loc"])
        if details["type"] in ("union_tag_invalid", "union_tag_not_found"):
            self._no_kind(where)
            return
        reason, way_out = explain(details, where, entry=self._entry_of(where[:-1]))
        self.add(where, reason, way_out)

    def _no_kind(self, where: Where) -> None:
        value = self._value(where)
        given = value.get("kind") if isinstance(value, dict) else None
        reason = "is missing." if given is None else f"is {ascii(given)[:60]}, which is no kind of source."
        self.add((*where, "kind"), reason, f"Write one of {', '.join(SOURCE_ENTRIES)}.")

    def _entry_of(self, where: Where) -> type[Entry]:
        """Return the model of the mapping at a place."""
        match where:
            case ("sources", str(), *_):
                value = self._value(where[:2])
                kind = value.get("kind") if isinstance(value, dict) else None
                return SOURCE_ENTRIES.get(str(kind), AlertmanagerEntry)
            case ("rules", int(), "attempts", *_):
                return AttemptsEntry
            case ("rules", int(), *_):
                return RuleEntry
            case ("sweeps", int(), "selector", *_):
                return SelectorEntry
            case ("sweeps", int(), *_):
                return SweepEntry
            case _:
                return RulesFile

    def _value(self, where: Where) -> object:
        value = self.document.value
        for part in where:
            if isinstance(part, int):
                value = value[part] if isinstance(value, list) and part < len(value) else None
            else:
                value = value.get(part) if isinstance(value, dict) else None
        return value

    def _sentence(self, where: Where, reason: str) -> str:
        """Return a reason as a sentence: one that begins small is about the key at its place."""
        subject = ""
        match where:
            case ("rules" | "sweeps" as listed, int(number), *_):
                name = self._value((listed, number, "name"))
                subject = f"{listed.removesuffix('s')} {_word(name) if isinstance(name, str) else number + 1}: "
            case ("sources", str(name), *_):
                subject = f"source {_word(name)}: "
            case _:
                pass
        key = next((_word(part) for part in reversed(where) if isinstance(part, str)), "")
        if reason[:1].islower() and key:
            # Of an entry as a whole its name stands before it already.
            reason = f"it {reason}" if subject and len(where) == 2 else f"`{key}` {reason}"
        sentence = f"{subject}{reason}"
        return sentence[:1].upper() + sentence[1:]


def near(word: str, known: Iterable[str]) -> str:
    """Return the question whether another word was meant, or which there are; empty when there is none."""
    names = list(known)
    close = difflib.get_close_matches(word, names, n=1)
    if close:
        return f"Do you mean `{close[0]}`?"
    return f"There are {', '.join(names[:20])}." if names else ""


def _place(loc: tuple[int | str, ...]) -> Where:
    """Return a place in the file: pydantic adds the name of the union's member, and a mark for keys."""
    parts = tuple(part for part in loc if part != "[key]")
    return (*parts[:2], *parts[3:]) if parts[:1] == ("sources",) and len(parts) > 2 else parts


def _budget(entry: RuleEntry) -> AttemptBudget | None:
    if entry.attempts is not None:
        return AttemptBudget(entry.attempts.most, entry.attempts.within)
    # A cure that does not last must not go on for ever because nobody has thought of it.
    return None if entry.dry_run else USUAL_ATTEMPTS


def _word(text: str) -> str:
    return ascii(text)[1:-1]
