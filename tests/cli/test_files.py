"""lint, schema and plan work on files, with no service and no database."""

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.installation import Installation


@pytest.fixture
def place(tmp_path: Path) -> Installation:
    return Installation(tmp_path / "place")


def test_lint_exits_0_when_nothing_is_wrong(place: Installation) -> None:
    done = place("lint", "runbooks/look.yaml")

    assert (done.returncode, done.stdout) == (0, "")
    assert "1 file, 0 errors" in done.stderr


def test_lint_exits_1_with_file_line_and_the_way_to_mend_it(place: Installation) -> None:
    bad = place.folder / "runbooks" / "look.yaml"
    bad.write_text(bad.read_text().replace("read_only: true", "read_onyl: true"))

    done = place("lint", "runbooks/look.yaml")

    assert done.returncode == 1
    assert done.stdout.startswith("runbooks/look.yaml:9: ")
    assert "`read_only`" in done.stdout


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_lint_leaves_the_shell_alone_where_it_is_told_to(place: Installation) -> None:
    bad = place.folder / "runbooks" / "look.yaml"
    bad.write_text(bad.read_text().replace("run: ", "run: cat $HOME; ", 1))

    strict, quick = place("lint", "runbooks/look.yaml"), place("lint", "--no-shell", "runbooks/look.yaml")

    assert "SC2086" in strict.stdout
    assert (quick.returncode, "SC2086" in quick.stdout) == (0, False)


def test_lint_without_files_looks_at_every_runbook(place: Installation) -> None:
    done = place("lint")

    assert "5 files" in done.stderr


def test_lint_of_a_file_that_is_not_there_exits_1(place: Installation) -> None:
    done = place("lint", "runbooks/absent.yaml")

    assert (done.returncode, done.stdout.split(": ")[0]) == (1, "runbooks/absent.yaml:1")


def test_schema_prints_a_json_schema(place: Installation) -> None:
    done = place("schema")

    assert done.returncode == 0
    assert json.loads(done.stdout)["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_plan_shows_the_digest_and_every_script_and_touches_nothing(place: Installation) -> None:
    before = sorted(place.folder.rglob("*"))

    done = place("plan", "free", "--node", "n00", "--param", "run_exit=7")

    assert done.returncode == 0, done.stderr
    assert "== n00: touch check" in done.stdout
    assert "== n00: touch run" in done.stdout
    assert "== n00: touch verify" in done.stdout
    assert "PARAM_RUN_EXIT" in done.stdout
    assert sorted(place.folder.rglob("*")) == before


def test_the_same_plan_has_the_same_digest_and_another_one_another(place: Installation) -> None:
    first = json.loads(place("plan", "free", "--node", "n00", "--json").stdout)
    again = json.loads(place("plan", "free", "--node", "n00", "--json").stdout)
    other = json.loads(place("plan", "free", "--node", "n00", "--param", "run_exit=7", "--json").stdout)

    assert first["digest"] == again["digest"] != other["digest"]
    assert [script["script"] for script in first["scripts"]] == ["check", "run", "verify"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("plan", "free", "--node", "n99"), "There is no node n99"),
        (("plan", "free", "--node", "n00", "--param", "run_exit"), "has no value"),
        (("plan", "free"), "Missing option '--node'"),
        (("planned",), "No such command 'planned'"),
    ],
)
def test_what_cannot_be_understood_exits_2_with_a_reason_and_no_traceback(
    place: Installation, arguments: tuple[str, ...], words: str
) -> None:
    done = place(*arguments)

    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_setting_exits_2_and_names_the_variable(place: Installation) -> None:
    done = place("plan", "free", "--node", "n00", env={"UNSTICK_PORT": "http"})

    assert done.returncode == 2
    assert done.stderr.startswith("UNSTICK_PORT cannot be used.")


def test_help_lists_every_command_of_the_public_surface(place: Installation) -> None:
    done = place("--help")

    listed = {line.split()[0] for line in done.stdout.partition("Commands:")[2].splitlines() if line.strip()}
    assert done.returncode == 0
    assert listed == {
        *("serve", "migrate", "doctor", "lint", "schema", "plan", "run", "retry", "cancel", "runs", "show"),
        *("approve", "deny", "resolve", "hold", "release", "nodes", "audit", "token", "demo", "rules", "alerts"),
        *("pause", "resume", "breaker", "notices", "sweeps", "fleet"),
        *("override", "policy", "sessions", "export", "import"),
    }
