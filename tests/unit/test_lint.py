"""Lint says what is wrong with files, and where a person mends it."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from service.app.finding import Finding, Severity
from service.app.lint import ShellRemark, lint_files, runbook_files
from service.domain.errors import Unavailable
from service.executors.shellcheck import find_shellcheck
from tests.unit.runbook_text import HEAD

NOTE = "Mend the shell, or say `# shellcheck disable=` above the line and why."
RUNBOOK = f"""\
{HEAD}needs: [gpu]
params:
  mode: {{type: string, description: How.}}
prelude: [lib/a.sh, lib/b.sh]
steps:
  - id: act
    title: Act
    where: controller
    timeout: 1m
    run: |
      echo one
      echo $PARAM_MODE
    verify: test -e $NODE_GPU
"""


class WordCheck:
    """A checker of shell that remarks on every line with a certain word."""

    def __init__(self, word: str) -> None:
        self.word = word
        self.asked: list[str] = []

    def __call__(self, scripts: Sequence[str]) -> Sequence[Sequence[ShellRemark]]:
        self.asked += scripts
        return [
            [ShellRemark(number, "found") for number, line in enumerate(script.split("\n"), 1) if self.word in line]
            for script in scripts
        ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/a.sh").write_text("# a\na() { echo a; }\n")
    (tmp_path / "lib/b.sh").write_text("# b\n\nb() { echo b; }\n\n")
    (tmp_path / "cure.yaml").write_text(RUNBOOK)
    return tmp_path


def test_a_good_file_has_no_findings(folder: Path) -> None:
    assert lint_files([folder / "cure.yaml"], shellcheck=WordCheck("absent")) == []


def test_each_script_is_checked_as_it_would_be_sent(folder: Path) -> None:
    check = WordCheck("absent")

    lint_files([folder / "cure.yaml"], shellcheck=check)

    head = "set -euo pipefail\nexport NODE_GPU='a value'\nexport NODE_NAME='a node'\nexport PARAM_MODE='a value'\n"
    prelude = "# a\na() { echo a; }\n# b\n\nb() { echo b; }\n"
    assert check.asked == [
        f"{head}{prelude}echo one\necho $PARAM_MODE\n",
        f"{head}{prelude}test -e $NODE_GPU\n",
    ]


@pytest.mark.parametrize(
    ("word", "file", "line", "reason"),
    [
        ("echo one", "cure.yaml", 16, "shell of `run`: found"),
        ("echo $PARAM", "cure.yaml", 17, "shell of `run`: found"),
        ("test -e", "cure.yaml", 18, "shell of `verify`: found"),
        ("echo a", "lib/a.sh", 2, "found"),
        ("echo b", "lib/b.sh", 3, "found"),
    ],
)
def test_a_remark_comes_back_to_the_line_where_it_is_mended(
    folder: Path, word: str, file: str, line: int, reason: str
) -> None:
    found = lint_files([folder / "cure.yaml"], shellcheck=WordCheck(word))

    assert found == [Finding(str(folder / file), line, reason, NOTE)]


def test_a_remark_on_a_prelude_in_the_runbook_has_its_line_there(folder: Path) -> None:
    text = RUNBOOK.replace("prelude: [lib/a.sh, lib/b.sh]\n", "prelude: |\n  one() { :; }\n  two() { echo two; }\n")
    (folder / "cure.yaml").write_text(text)

    found = lint_files([folder / "cure.yaml"], shellcheck=WordCheck("echo two"))

    assert found == [Finding(str(folder / "cure.yaml"), 11, "found", NOTE)]


def test_findings_of_the_files_asked_for_are_told_and_others_only_known(folder: Path) -> None:
    (folder / "bad.yaml").write_text("a: [")
    (folder / "up.yaml").write_text(HEAD.replace("cure", "up") + "escalate_to: bad\nsteps: [{id: a, title: A}]\n")

    asked = lint_files([folder / "up.yaml"], shellcheck=None)
    everything = lint_files(runbook_files(folder), shellcheck=None)

    assert [(finding.file, finding.line) for finding in asked] == [(str(folder / "up.yaml"), 7)]
    assert [Path(finding.file).name for finding in everything] == ["bad.yaml", "up.yaml"]


def test_escalation_is_judged_with_the_other_runbooks_of_the_folder(folder: Path) -> None:
    (folder / "up.yaml").write_text(HEAD.replace("cure", "up") + "escalate_to: nowhere\n" + RUNBOOK[len(HEAD) :])

    found = lint_files([folder / "up.yaml"], shellcheck=None)

    assert [str(finding) for finding in found] == [
        f"{folder}/up.yaml:6: There is no runbook nowhere. Add it first, or escalate to another."
    ]


def test_a_file_that_is_not_there_is_a_finding(tmp_path: Path) -> None:
    found = lint_files([tmp_path / "absent.yaml"], shellcheck=None)

    assert [str(finding) for finding in found] == [
        f"{tmp_path}/absent.yaml:1: The file cannot be read: No such file or directory. Add it, or mend its rights."
    ]


def test_a_warning_says_that_it_is_one() -> None:
    finding = Finding("a.yaml", 7, "It is cut.", "Quote it.", Severity.WARNING)

    assert str(finding) == "a.yaml:7: warning: It is cut. Quote it."


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_shellcheck_itself_finds_what_is_wrong_with_the_shell(folder: Path) -> None:
    found = lint_files([folder / "cure.yaml"], shellcheck=find_shellcheck())

    assert [(Path(finding.file).name, finding.line, finding.reason[:30]) for finding in found] == [
        ("cure.yaml", 17, "shell of `run`: SC2086: Double"),
        ("cure.yaml", 18, "shell of `verify`: SC2086: Dou"),
    ]


def test_without_shellcheck_nobody_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert find_shellcheck() is None


def test_a_shellcheck_that_fails_is_no_clean_result(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "shellcheck"
    program.write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    check = find_shellcheck()

    assert check is not None
    with pytest.raises(Unavailable, match="shellcheck failed: broken"):
        check(["true"])
