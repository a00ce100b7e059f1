"""A folder of runbooks: edits are seen at once, and a bad file neither hides the good ones nor stops anything."""

import subprocess
from pathlib import Path

import pytest

from service.app.git_revision import git_revision
from service.app.lint import lint_files, runbook_files
from service.app.load_runbooks import RunbookFolder
from service.domain.errors import ConfigInvalid, NotFound, RunbookInvalid
from tests.unit.runbook_text import HEAD, STEP


def write(folder: Path, name: str, text: str | None = None, *, extra: str = "") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(text if text is not None else HEAD.replace("cure", name) + extra + STEP)
    return path


def names(runbooks: RunbookFolder) -> tuple[list[str], list[str]]:
    return [runbook.name for runbook in runbooks.all()], [Path(file).name for file, _ in runbooks.invalid()]


def test_a_folder_that_is_none_is_an_error_at_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="There is no folder of runbooks"):
        RunbookFolder(tmp_path / "absent")


def test_a_mistyped_key_is_told_before_the_one_that_is_missing_for_it(tmp_path: Path) -> None:
    write(tmp_path, "bad", HEAD.replace("cure", "bad") + STEP.replace("timeout:", "timeuot:"))

    with pytest.raises(RunbookInvalid, match=r"`timeuot` is not a key that is known here.*`timeout`.*1 more"):
        RunbookFolder(tmp_path).get("bad")


def test_only_runbooks_that_can_be_run_are_offered_instead_of_an_unknown_one(tmp_path: Path) -> None:
    write(tmp_path, "good")
    write(tmp_path, "bad", "a: [")

    with pytest.raises(NotFound) as refused:
        RunbookFolder(tmp_path).get("nothing")

    assert refused.value.way_out == "There are: good."


def test_lint_names_a_file_with_another_ending(tmp_path: Path) -> None:
    write(tmp_path, "good")
    (tmp_path / "other.yml").write_text(HEAD + STEP)

    findings = lint_files(runbook_files(tmp_path), shellcheck=None)

    assert [str(one) for one in findings] == [
        f"{tmp_path}/other.yml:1: The name does not end in .yaml. Rename the file."
    ]


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"a: [",
        b"a: 1\n\tb: 2\n",
        b"a: 1\n---\nb: 2\n",
        "schema: 1\n".encode("utf-16"),
        b"\xff",
        b"null: 1\n",
        b"schema: 1\nschema: 1\n",
        b"when: 2026-11-29\n",
        "name:\u00a0x\n".encode(),
        b"x" * 300_000,
    ],
    ids=["empty", "flow", "tab", "two", "utf-16", "bytes", "null key", "twice", "date", "no-break space", "big"],
)
def test_a_bad_file_is_listed_and_hides_no_good_one(tmp_path: Path, bad: bytes) -> None:
    write(tmp_path, "good")
    (tmp_path / "bad.yaml").write_bytes(bad)

    runbooks = RunbookFolder(tmp_path)

    assert names(runbooks) == (["good"], ["bad.yaml"])
    with pytest.raises(RunbookInvalid, match=r"bad\.yaml:\d+: "):
        runbooks.get("bad")


def test_a_file_that_cannot_be_read_or_has_another_ending_is_listed(tmp_path: Path) -> None:
    write(tmp_path, "good")
    (tmp_path / "lost.yaml").symlink_to(tmp_path / "nowhere")
    (tmp_path / "other.yml").write_text(HEAD + STEP)
    (tmp_path / ".good.yaml.swp").write_text("x")
    (tmp_path / ".hidden.yaml").write_text("x")

    runbooks = RunbookFolder(tmp_path)

    assert names(runbooks) == (["good"], ["lost.yaml", "other.yml"])
    assert [reason.split(": ", 1)[1] for _, reason in runbooks.invalid()] == [
        "The file cannot be read: No such file or directory. Add it, or mend its rights.",
        "The name does not end in .yaml. Rename the file.",
    ]


def test_an_edit_a_new_file_and_a_removed_one_are_seen_without_a_restart(tmp_path: Path) -> None:
    path = write(tmp_path, "cure")
    runbooks = RunbookFolder(tmp_path)
    before = runbooks.get("cure")[0]

    path.write_text(path.read_text().replace("A cure", "A curE"))
    edited = runbooks.get("cure")[0]
    path.write_text("broken")
    broken = names(runbooks)
    write(tmp_path, "other")
    path.unlink()

    assert (before.title, edited.title) == ("A cure", "A curE")
    assert before.file_sha256 != edited.file_sha256
    assert broken == ([], ["cure.yaml"])
    assert names(runbooks) == (["other"], [])
    with pytest.raises(NotFound) as caught:
        runbooks.get("cure")
    assert str(caught.value) == "There is no runbook cure. There are: other."


def test_what_did_not_change_is_the_same_value(tmp_path: Path) -> None:
    write(tmp_path, "one")
    write(tmp_path, "two")
    runbooks = RunbookFolder(tmp_path)
    one, two = runbooks.all()

    write(tmp_path, "two", extra="prevention: x\n")

    assert runbooks.get("one")[0] is one
    assert runbooks.get("two")[0] is not two


def test_library_files_are_inlined_in_order_and_an_edit_of_one_is_seen(tmp_path: Path) -> None:
    write(tmp_path, "cure", extra="prelude: [lib/b.sh, lib/a.sh]\n")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/a.sh").write_text("a() { :; }")
    (tmp_path / "lib/b.sh").write_text("b() { :; }\n")
    runbooks = RunbookFolder(tmp_path)

    first, source = runbooks.get("cure")
    (tmp_path / "lib/a.sh").write_text("a() { echo; }\n")
    second, _ = runbooks.get("cure")

    assert first.prelude == source.prelude == "b() { :; }\na() { :; }\n"
    assert second.prelude == "b() { :; }\na() { echo; }\n"
    assert first.file_sha256 == second.file_sha256


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (None, r"lib/a\.sh:1: The file cannot be read: No such file or directory \(.*cure\.yaml:6 names it\)\."),
        (b"a\r\n", r"lib/a\.sh:1: The file holds carriage returns\."),
        (b"\xff", r"lib/a\.sh:1: Byte 0 is not UTF-8 \(.*cure\.yaml:6 names it\)\."),
    ],
)
def test_a_library_file_that_is_missing_or_wrong_is_told(tmp_path: Path, data: bytes | None, expected: str) -> None:
    write(tmp_path, "cure", extra="prelude: [lib/a.sh]\n")
    (tmp_path / "lib").mkdir()
    if data is not None:
        (tmp_path / "lib/a.sh").write_bytes(data)

    with pytest.raises(RunbookInvalid, match=expected):
        RunbookFolder(tmp_path).get("cure")


def test_escalation_to_nowhere_or_in_a_circle_refuses_only_those_concerned(tmp_path: Path) -> None:
    write(tmp_path, "a", extra="escalate_to: b\n")
    write(tmp_path, "b", extra="escalate_to: c\n")
    write(tmp_path, "c", extra="escalate_to: b\n")
    write(tmp_path, "d", extra="escalate_to: nowhere\n")
    write(tmp_path, "e", extra="escalate_to: broken\n")
    write(tmp_path, "f", extra="escalate_to: f\n")
    write(tmp_path, "broken", "x")

    runbooks = RunbookFolder(tmp_path)

    assert names(runbooks) == (["a", "e"], ["b.yaml", "broken.yaml", "c.yaml", "d.yaml", "f.yaml"])
    told = {Path(file).stem: reason.split(":", 2)[2] for file, reason in runbooks.invalid()}
    circle = "Take one of these away; a person is called where it ends."
    assert told["b"] == f" Escalation leads in a circle: b -> c -> b. {circle}"
    assert told["d"] == " There is no runbook nowhere. Add it first, or escalate to another."
    assert told["f"] == f" Escalation leads in a circle: f -> f. {circle}"


@pytest.mark.parametrize(
    ("here", "there", "expected"),
    [
        (
            "{type: string, description: a}",
            "{type: integer, description: a}",
            " The parameter x is string here and integer in goal.",
        ),
        (None, "{type: integer, description: a}", " The runbook goal must be given x, which cure has not."),
        (None, "{type: integer, description: a, default: 1}", None),
        ("{type: integer, description: a}", "{type: integer, description: b}", None),
        ("{type: integer, description: a}", None, None),
    ],
)
def test_escalation_hands_over_parameters_of_the_same_name_and_type(
    tmp_path: Path, here: str | None, there: str | None, expected: str | None
) -> None:
    write(tmp_path, "cure", extra="escalate_to: goal\n" + (f"params: {{x: {here}}}\n" if here else ""))
    write(tmp_path, "goal", extra=f"params: {{x: {there}}}\n" if there else "")

    told = [reason.split(":", 2)[2] for _, reason in RunbookFolder(tmp_path).invalid()]

    assert [reason[: len(expected or "")] for reason in told] == ([] if expected is None else [expected])


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=n", "-c", "user.email=n@example.com", "-c", "init.defaultBranch=main"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout" / "runbooks"
    folder.mkdir(parents=True)
    write(folder, "cure")
    git(folder.parent, "init", "-q")
    git(folder.parent, "add", ".")
    git(folder.parent, "commit", "-q", "-m", "one")
    return folder


def test_the_revision_is_what_git_itself_says(checkout: Path) -> None:
    runbooks = RunbookFolder(checkout)
    first = git(checkout, "rev-parse", "HEAD")

    loose = runbooks.get("cure")
    git(checkout, "pack-refs", "--all")
    packed = git_revision(checkout)
    git(checkout, "commit", "-q", "--allow-empty", "-m", "two")
    second = git(checkout, "rev-parse", "HEAD")
    moved = runbooks.get("cure")
    git(checkout, "checkout", "-q", "--detach", first)
    detached = git_revision(checkout)

    assert (loose[0].revision, loose[1].revision, packed, detached) == (first, first, first, first)
    assert (moved[0].revision, moved[1].revision) == (second, second)


def test_the_revision_of_a_linked_work_tree_is_its_own(checkout: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    git(checkout, "worktree", "add", "-q", "-b", "side", str(linked))
    git(linked, "commit", "-q", "--allow-empty", "-m", "side")

    assert git_revision(linked / "runbooks") == git(linked, "rev-parse", "HEAD")


def test_where_git_says_nothing_the_revision_is_empty(checkout: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    head = checkout.parent / ".git" / "HEAD"

    told = [git_revision(plain)]
    for content in ("ref: refs/heads/unborn\n", "nonsense\n", ""):
        head.write_text(content)
        told.append(git_revision(checkout))

    assert told == ["", "", "", ""]
