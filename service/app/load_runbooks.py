"""Reads a folder of runbooks: the good ones are offered, the bad ones are told, and none hides another."""

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from service.app.entry_faults import UNKNOWN_KEY
from service.app.finding import Finding
from service.app.git_revision import git_revision
from service.app.ports import RunbookSource
from service.app.read_runbook import Examined, examine, examine_document, to_findings
from service.app.runbook_rules import escalation_faults
from service.app.runbook_schema import LIBRARY_FILE
from service.app.runbook_yaml import MAX_BYTES, Document, decode, read_document
from service.domain.errors import ConfigInvalid, NotFound, RunbookInvalid
from service.domain.runbook import Runbook

SUFFIX = ".yaml"
#: Such a file is meant as a runbook, and is not one.
OTHER_SUFFIX = ".yml"


@dataclass(frozen=True)
class PreludePart:
    """Some shell that goes before every script, and where it stands."""

    file: str
    #: The line of its first line.
    line: int
    text: str


@dataclass(frozen=True)
class LoadedFile:
    """One file of the folder, read and examined."""

    #: As it is told in findings.
    file: str
    examined: Examined
    #: None when the text could not be read at all.
    source: RunbookSource | None = None


def parse_runbook(source: RunbookSource, file: str) -> Runbook:
    """Return the runbook of a text; `file` names it in findings, and its name must be the runbook's.

    Raises RunbookInvalid with the first finding (and how many there are), never anything else.
    """
    examined = _examined(source, file)
    if examined.runbook is None:
        raise invalid_runbook(examined.errors)
    return examined.runbook


@lru_cache(maxsize=64)
def _examined(source: RunbookSource, file: str) -> Examined:
    # Each node run of a run asks for the same text; reading it costs more than all else before its first script.
    return examine(source, file)


def invalid_runbook(errors: Sequence[Finding]) -> RunbookInvalid:
    """Return the error that tells these findings."""
    # A key that nobody knows is mostly why another one is missing, so it is told first.
    first, *others = sorted(errors, key=lambda finding: UNKNOWN_KEY not in finding.reason)
    more = f" ({len(others)} more: run `unstick lint`.)" if others else ""
    return RunbookInvalid(first.what, first.way_out + more)


def load_file(path: Path, *, revision: str = "") -> LoadedFile:
    """Read and examine one runbook file, with the files of `lib/` beside it that it names. Raises nothing."""
    file = str(path)
    if path.suffix == OTHER_SUFFIX:
        return LoadedFile(file, refused(Finding(file, 1, f"The name does not end in {SUFFIX}.", "Rename the file.")))
    text = read_text(path)
    if isinstance(text, Finding):
        return LoadedFile(file, refused(text))
    document = read_document(text, file)
    if isinstance(document, Finding):
        return LoadedFile(file, refused(document))
    prelude = read_prelude(document, path)
    if isinstance(prelude, Finding):
        return LoadedFile(file, refused(prelude))
    source = RunbookSource(path.name.removesuffix(SUFFIX), text, "".join(part.text for part in prelude), revision)
    return LoadedFile(file, examine_document(document, source, file=file), source)


def read_text(path: Path) -> str | Finding:
    """Return the text of a file with nothing changed, or why it cannot be read."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        return Finding(str(path), 1, f"The file cannot be read: {error.strerror}.", "Add it, or mend its rights.")
    return decode(data, str(path))


def read_prelude(document: Document, path: Path) -> tuple[PreludePart, ...] | Finding:
    """Return what goes before every script of the runbook at `path`: its own text, or files of `lib/`."""
    named = document.value.get("prelude") if isinstance(document.value, dict) else None
    if isinstance(named, str):
        text = document.texts[("prelude",)]
        return (PreludePart(str(path), text.line, named),)
    parts = []
    for name in named if isinstance(named, list) else ():
        if not isinstance(name, str) or not re.fullmatch(LIBRARY_FILE, name):
            continue  # The schema tells what is wrong with it.
        library = path.parent / name
        part = read_text(library)
        if isinstance(part, Finding):
            where = f"{path}:{document.line(('prelude',))}"
            return replace(part, reason=f"{part.reason[:-1]} ({where} names it).")
        if "\r" in part:
            return Finding(str(library), 1, "The file holds carriage returns.", "Save it with Unix line ends.")
        parts.append(PreludePart(str(library), 1, part if part.endswith("\n") else f"{part}\n"))
    return tuple(parts)


def refused(finding: Finding) -> Examined:
    """Return the result for a file that cannot be read as far as its values."""
    return Examined(None, (finding,))


def check_escalations(files: Mapping[str, LoadedFile]) -> dict[str, LoadedFile]:
    """Return the same files with the findings that only all of them together show."""
    runbooks = {name: loaded.examined.runbook for name, loaded in files.items()}
    good = {name: runbook for name, runbook in runbooks.items() if runbook is not None}
    checked = dict(files)
    for name, runbook in good.items():
        loaded = files[name]
        found = tuple(escalation_faults(runbook, good, known=frozenset(files)))
        if found and loaded.examined.document is not None:
            findings = to_findings(found, loaded.examined.document, file=loaded.file)
            everything = tuple(sorted({*loaded.examined.findings, *findings}))
            checked[name] = replace(loaded, examined=Examined(None, everything, loaded.examined.document))
    return checked


class RunbookFolder:
    """The runbooks of one folder; fulfils the port Runbooks.

    Each question reads the files again (some hundred microseconds for a few dozen) and examines those
    that changed: an edit is seen at once, and no time of change is trusted.
    """

    def __init__(self, folder: Path) -> None:
        """Take a folder; ConfigInvalid when it is none."""
        if not folder.is_dir():
            raise ConfigInvalid(f"There is no folder of runbooks at {folder}.", "Set UNSTICK_RUNBOOKS to one.")
        self._folder = folder
        self._lock = threading.Lock()
        self._bytes: Mapping[Path, bytes] = {}
        self._revision = ""
        self._loaded: Mapping[Path, LoadedFile] = {}
        self._files: Mapping[str, LoadedFile] = {}

    def get(self, name: str) -> tuple[Runbook, RunbookSource]:
        """Return a runbook and its text; NotFound, or RunbookInvalid with its findings."""
        files = self._current()
        if name not in files:
            names = ", ".join(runbook.name for runbook in _good(files)) or "none"
            raise NotFound(f"There is no runbook {name}.", f"There are: {names}.")
        loaded = files[name]
        if loaded.examined.runbook is None or loaded.source is None:
            raise invalid_runbook(loaded.examined.errors)
        return loaded.examined.runbook, loaded.source

    def all(self) -> Sequence[Runbook]:
        """Return every good runbook, by name."""
        return _good(self._current())

    def invalid(self) -> Sequence[tuple[str, str]]:
        """Return file and reason of every bad one."""
        bad = [loaded for _, loaded in sorted(self._current().items()) if loaded.examined.runbook is None]
        return [(loaded.file, str(invalid_runbook(loaded.examined.errors))) for loaded in bad]

    def _current(self) -> Mapping[str, LoadedFile]:
        with self._lock:
            now = _read_all(self._folder)
            revision = git_revision(self._folder)
            if now != self._bytes or revision != self._revision:
                self._loaded = self._load(now, revision)
                self._bytes, self._revision = now, revision
                self._files = check_escalations({_name(path): loaded for path, loaded in self._loaded.items()})
            return self._files

    def _load(self, now: Mapping[Path, bytes], revision: str) -> dict[Path, LoadedFile]:
        """Examine the files anew, except those that stand as they stood."""
        libraries = {path for path in {*now, *self._bytes} if path.suffix == ".sh"}
        same = revision == self._revision and all(now.get(path) == self._bytes.get(path) for path in libraries)
        loaded: dict[Path, LoadedFile] = {}
        for path in sorted(set(now) - libraries):
            if same and path in self._loaded and now[path] == self._bytes.get(path):
                loaded[path] = self._loaded[path]
            else:
                loaded[path] = load_file(path, revision=revision)
        return loaded


def _good(files: Mapping[str, LoadedFile]) -> list[Runbook]:
    """Return those that can be run, by name."""
    found = (loaded.examined.runbook for _, loaded in sorted(files.items()))
    return [runbook for runbook in found if runbook is not None]


def _name(path: Path) -> str:
    return path.name.removesuffix(SUFFIX)


def _read_all(folder: Path) -> dict[Path, bytes]:
    """Return the first bytes of every file that counts; those of an unreadable one are its error."""
    found = [*folder.glob("*.yaml"), *folder.glob("*.yml"), *folder.glob("lib/*.sh")]
    return {path: _bytes(path) for path in found if not path.name.startswith(".")}


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(MAX_BYTES + 1)
    except OSError as error:
        return repr(error).encode()
