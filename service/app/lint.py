"""Says everything that is wrong with runbook files before anybody runs them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from service.app.finding import Finding
from service.app.load_runbooks import (
    OTHER_SUFFIX,
    SUFFIX,
    LoadedFile,
    PreludePart,
    check_escalations,
    load_file,
    read_prelude,
)
from service.app.runbook_yaml import Document
from service.domain.node import Controller, Endpoint, ExecutorKind, Inventory, Node
from service.domain.plan import PlannedScript, make_plan
from service.domain.runbook import Param, ParamType, ParamValue, Runbook


@dataclass(frozen=True)
class ShellRemark:
    """What a checker of shell says about one line of a script."""

    #: Counted from 1 in the script as it was given.
    line: int
    #: Such as `SC2086: Double quote to prevent globbing.`
    text: str


class ShellCheck(Protocol):
    """A checker of shell scripts."""

    def __call__(self, scripts: Sequence[str]) -> Sequence[Sequence[ShellRemark]]:
        """Return the remarks on each script, in the same order."""


def lint_files(paths: Sequence[Path], *, shellcheck: ShellCheck | None) -> list[Finding]:
    """Return every finding of these files, by file and line; other runbooks beside them are only read.

    Without `shellcheck` the shell itself is not looked at.
    """
    findings: list[Finding] = []
    for folder in sorted({path.parent for path in paths}):
        loaded = _load_folder(folder, [path for path in paths if path.parent == folder])
        for path in sorted(path for path in set(paths) if path.parent == folder):
            findings += loaded[path].examined.findings
            if shellcheck is not None:
                findings += _shell_findings(loaded[path], path, shellcheck=shellcheck)
    return sorted(set(findings))


def runbook_files(folder: Path) -> list[Path]:
    """Return the runbook files of a folder, by name; those too whose name ends wrongly."""
    return sorted(
        path for path in folder.iterdir() if path.suffix in (SUFFIX, OTHER_SUFFIX) and not path.name.startswith(".")
    )


def _load_folder(folder: Path, asked: Sequence[Path]) -> Mapping[Path, LoadedFile]:
    by_path = {path: load_file(path) for path in sorted({*runbook_files(folder), *asked})}
    checked = check_escalations({path.name.removesuffix(SUFFIX): loaded for path, loaded in by_path.items()})
    return {path: checked[path.name.removesuffix(SUFFIX)] for path in by_path}


def _shell_findings(loaded: LoadedFile, path: Path, *, shellcheck: ShellCheck) -> list[Finding]:
    """Return the remarks on every script of a good runbook, each as it would be sent."""
    runbook, document = loaded.examined.runbook, loaded.examined.document
    if runbook is None or document is None:
        return []
    prelude = read_prelude(document, path)
    if isinstance(prelude, Finding):
        return [prelude]
    numbers = {step.id: number for number, step in enumerate(runbook.steps)}
    planned = _plan(runbook)
    findings = []
    for script, remarks in zip(planned, shellcheck([script.text for script in planned]), strict=True):
        own = runbook.step(script.step).prelude
        place = _Place(
            loaded.file,
            document,
            where=("steps", numbers[script.step], str(script.kind)),
            prelude=tuple(part for part in prelude if own is None or part.file.endswith(own)),
            script=script.text,
            body=runbook.step(script.step).script(script.kind) or "",
        )
        findings += [place.finding(remark) for remark in remarks]
    return findings


def _plan(runbook: Runbook) -> tuple[PlannedScript, ...]:
    """Return every script as it would be sent, with values that only a quoted `$VALUE` survives."""
    endpoint = Endpoint("controller", ExecutorKind.LOCAL, "controller")
    node = Node("a node", endpoint, controller="controller", attributes=dict.fromkeys(runbook.needs, "a value"))
    inventory = Inventory({node.name: node}, {"controller": Controller("controller", endpoint)})
    params = {param.name: _example(param) for param in runbook.params}
    return make_plan(runbook, (node,), inventory=inventory, params=params, envelope_sha256="").scripts


def _example(param: Param) -> ParamValue:
    match param.type:
        case ParamType.STRING:
            return "a value"
        case ParamType.INTEGER:
            return 1
        case ParamType.BOOLEAN:
            return False


class _Place:
    """Finds the line of a file from the line of a script as it would be sent."""

    def __init__(
        self,
        file: str,
        document: Document,
        *,
        where: tuple[str | int, ...],
        prelude: tuple[PreludePart, ...],
        script: str,
        body: str,
    ) -> None:
        self._file = file
        self._where = where
        self._document = document
        self._prelude = prelude
        self._body_lines = len(body.rstrip("\n").split("\n"))
        self._script_lines = len(script.rstrip("\n").split("\n"))
        self._prelude_lines = len("".join(part.text for part in prelude).rstrip("\n").split("\n")) if prelude else 0

    def finding(self, remark: ShellRemark) -> Finding:
        """Return the remark where a person would mend it."""
        way_out = "Mend the shell, or say `# shellcheck disable=` above the line and why."
        into_body = remark.line - (self._script_lines - self._body_lines)
        text = self._document.texts.get(self._where)
        if into_body > 0:
            inside = into_body - 1 if text is not None and text.style == "|" else 0
            line = (text.line if text is not None else self._document.line(self._where)) + inside
            return Finding(self._file, line, f"{self._name}: {remark.text}", way_out)
        into_prelude = into_body + self._prelude_lines
        for part in self._prelude if into_prelude > 0 else ():
            lines = part.text.count("\n")
            if into_prelude <= lines:
                return Finding(part.file, part.line + into_prelude - 1, remark.text, way_out)
            into_prelude -= lines
        return Finding(self._file, self._document.line(self._where), f"{self._name}: {remark.text}", way_out)

    @property
    def _name(self) -> str:
        return f"shell of `{self._where[-1]}`"
