"""docs/runbooks.md tells the format as it is."""

import re
import subprocess
from pathlib import Path

import pytest

from service.app.lint import lint_files
from service.app.load_runbooks import load_file
from service.app.runbook_schema import Entry, LimitsEntry, ParamEntry, RetryEntry, RunbookFile, StepEntry
from service.domain.script import ScriptKind, render
from service.executors.shellcheck import find_shellcheck

DOCS = Path("docs/runbooks.md").read_text()


def example(folder: Path) -> Path:
    """Write the first example into a folder, as a reader would."""
    found = re.search(r"```yaml\n(.*?)```", DOCS, re.DOTALL)
    assert found is not None
    path = folder / "restart-exporter.yaml"
    path.write_text(found[1])
    return path


def test_its_example_is_a_good_runbook_with_good_shell(tmp_path: Path) -> None:
    assert lint_files([example(tmp_path)], shellcheck=find_shellcheck()) == []


@pytest.mark.parametrize(
    ("curl", "invocation", "code", "targets"),
    [
        (0, "4f1a", 77, ""),
        (28, "4f1a", 0, "dcgm-exporter 4f1a\n"),
        (7, "", 2, ""),
        (3, "4f1a", 2, ""),
        (None, "4f1a", 2, ""),
    ],
    ids=["it answers", "it hangs", "nobody knows the unit", "curl cannot ask", "curl is missing"],
)
def test_its_example_acts_only_when_it_could_look(
    tmp_path: Path, curl: int | None, invocation: str, code: int, targets: str
) -> None:
    done = play(tmp_path, ScriptKind.CHECK, curl=curl, invocation=invocation)

    assert (done, (tmp_path / "targets").read_text()) == (code, targets)


@pytest.mark.parametrize(("curl", "code"), [(0, 0), (7, 77), (None, 2)], ids=["well", "not well", "cannot look"])
def test_its_example_proves_nothing_when_it_cannot_look(tmp_path: Path, curl: int | None, code: int) -> None:
    assert play(tmp_path, ScriptKind.VERIFY, curl=curl, invocation="4f1a") == code


def play(folder: Path, kind: ScriptKind, *, curl: int | None, invocation: str) -> int:
    """Play a script of the example where curl ends with this code, or is missing; return its exit code."""
    loaded = load_file(example(folder))
    assert loaded.examined.runbook is not None
    assert loaded.source is not None
    programs = folder / "bin"
    programs.mkdir()
    (folder / "targets").touch()
    (programs / "tee").symlink_to("/usr/bin/tee")
    for name, body in (("systemctl", f"echo {invocation}"), ("curl", f"exit {curl}")):
        if (name, curl) != ("curl", None):
            (programs / name).write_text(f"#!/bin/sh\n{body}\n")
            (programs / name).chmod(0o755)
    body = getattr(loaded.examined.runbook.steps[0], kind)
    text = render(prelude=loaded.source.prelude, body=body, environment={"PARAM_PORT": "9400"})
    environment = {"PATH": str(programs), "UNSTICK_TARGETS": str(folder / "targets")}
    return subprocess.run(
        ["/bin/bash", "-c", text], env=environment, capture_output=True, timeout=60, check=False
    ).returncode


@pytest.mark.parametrize("entry", [RunbookFile, StepEntry, ParamEntry, LimitsEntry, RetryEntry])
def test_it_names_every_key(entry: type[Entry]) -> None:
    keys = [field.alias or name for name, field in entry.model_fields.items()]

    assert [key for key in keys if f"`{key}`" not in DOCS] == []
