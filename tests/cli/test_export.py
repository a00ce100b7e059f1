"""`unstick export`: the cure without the service, played at a terminal."""

import hashlib
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.domain.run import NodeRunState, Verdict
from tests.cli.installation import Installation, eventually
from tests.support.by_hand import BEGIN, YES, export, imported, world_of
from tests.support.world import World

pytestmark = pytest.mark.needs_root

#: Looks, puts a mark down, acts, and takes the mark away again whatever has become of it.
UNDOING = """\
schema: 1
name: undoing
title: Act between two marks
owner: tests
description: For the tests of the exported script.
params:
  run_exit: {type: integer, min: 0, max: 99, default: 0, description: How run ends.}
  marks: {type: string, max_length: 300, description: Where the marks are.}
steps:
  - id: look
    title: Look
    read_only: true
    timeout: 1m
    run: |
      echo "it's a \\\\ look"
  - id: mark
    title: Put a mark down
    timeout: 1m
    check: |
      echo "it's {folder}" >"$UNSTICK_TARGETS"
    run: |
      touch "$PARAM_MARKS/mark"
    verify: |
      [ -e "$PARAM_MARKS/mark" ] || exit 1
  - id: act
    title: Act
    approval: confirm
    timeout: 1m
    retry: {attempts: 2, delay: 1s}
    check: |
      echo one >"$UNSTICK_TARGETS"
    run: |
      echo "$UNSTICK_ATTEMPT" >>"$PARAM_MARKS/acted"
      exit "$PARAM_RUN_EXIT"
    verify: |
      exit "$PARAM_RUN_EXIT"
  - id: unmark
    title: Take the mark away
    always: true
    undoes: mark
    timeout: 1m
    run: |
      grep -qx "it's {folder}" "$UNSTICK_TARGETS"
      rm "$PARAM_MARKS/mark"
    verify: |
      [ ! -e "$PARAM_MARKS/mark" ] || exit 1
"""


@pytest.fixture
def place(tmp_path: Path) -> Installation:
    """Give files of an installation; no service runs."""
    built = Installation(tmp_path / "place")
    (built.folder / "runbooks" / "undoing.yaml").write_text(UNDOING)
    return built


@pytest.fixture
def world(place: Installation, tmp_path: Path) -> Iterator[World]:
    """Give what plans the scripts, and the record that takes their journals."""
    built = world_of(place.folder / "runbooks", tmp_path)
    yield built
    built.close()


def test_the_script_has_the_bytes_and_the_digest_of_the_plan(place: Installation, tmp_path: Path) -> None:
    script = tmp_path / "confirm.sh"
    done = place("export", "confirm", "--node", "n00", "--param", "run_exit=5", "--output", str(script))
    again = place("export", "confirm", "--node", "n00", "--output", str(script))

    plan = json.loads(place("plan", "confirm", "--node", "n00", "--param", "run_exit=5", "--json").stdout)
    shown = {
        one["script"]: subprocess.run(
            ["sh", str(script), "--show", one["step"], one["script"]], capture_output=True, check=True
        ).stdout
        for one in plan["scripts"]
    }

    assert (done.returncode, again.returncode) == (0, 2), done.stderr
    assert f"# plan      {plan['digest']}" in script.read_text()
    assert {kind: hashlib.sha256(text).hexdigest() for kind, text in shown.items()} == {
        one["script"]: one["sha256"] for one in plan["scripts"]
    }


def test_the_script_is_clean_shell(world: World, tmp_path: Path) -> None:
    by_hand = export(world, tmp_path, "second")

    found = subprocess.run(["shellcheck", str(by_hand.script)], capture_output=True, text=True, check=False)

    assert (found.returncode, found.stdout) == (0, "")


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_gate_is_typed_and_the_node_is_proven_cured(world: World, tmp_path: Path, shell: str) -> None:
    by_hand = export(world, tmp_path, "confirm", shell=shell)

    code, seen = by_hand.play(*BEGIN, YES)

    assert code == 0, seen
    assert "thing-of-n00" in seen
    assert "looked at n00" in seen
    assert "ENDED succeeded, verdict cured" in seen
    assert '"answer":"approved","who":"ann"' in by_hand.journal.read_text()
    assert by_hand.events() == [
        *("begun", "intended", "result", "gate", "answer", "intended", "result", "intended", "result", "ended")
    ]


def test_a_yes_is_no_answer_and_a_denial_runs_nothing(world: World, tmp_path: Path) -> None:
    by_hand = export(world, tmp_path, "confirm")

    no_answers = [(YES[0], typed) for typed in ("y", "yes", "N00")]
    code, seen = by_hand.play(*BEGIN, *no_answers, (YES[0], "no"), ("Why not:", "it is busy"))

    assert code == 1, seen
    assert "ENDED denied" in seen
    assert by_hand.events() == ["begun", "intended", "result", "gate", "answer", "ended"]


def test_the_second_person_is_not_the_first(world: World, tmp_path: Path) -> None:
    by_hand = export(world, tmp_path, "second")

    code, seen = by_hand.play(*BEGIN, ("Name:", "ANN"), ("Name:", "bob"), YES)

    assert code == 0, seen
    assert "ANN began or resumed this run and cannot be the second person." in seen


def test_an_answer_behind_the_deadline_runs_nothing(world: World, tmp_path: Path) -> None:
    by_hand = export(world, tmp_path, "brief")
    with by_hand.start() as terminal:
        terminal.answer(*BEGIN)
        terminal.expect(YES[0])
        # The approval of this runbook is good for one second.
        subprocess.run(["sleep", "1.2"], check=True)
        terminal.type("n00")
        code = terminal.end()

    assert code == 1, terminal.seen
    assert imported(world, by_hand).state is NodeRunState.EXPIRED
    assert "run" not in re.findall(r'"script":"(\w+)"', by_hand.journal.read_text())


@pytest.mark.parametrize(
    ("params", "code", "state", "verdict"),
    [
        ({"check_exit": 77}, 0, NodeRunState.SUCCEEDED, Verdict.WELL),
        ({"check_exit": 3}, 1, NodeRunState.FAILED, None),
        ({"run_exit": 77}, 0, NodeRunState.SUCCEEDED, Verdict.CLEARED),
        ({"run_exit": 5}, 1, NodeRunState.FAILED, Verdict.CURED),
        ({"verify_exit": 1}, 1, NodeRunState.FAILED, Verdict.NOT_CURED),
        ({"verify_exit": 9}, 4, NodeRunState.STUCK, Verdict.UNKNOWN),
    ],
)
def test_every_exit_ends_as_the_table_says_here_and_in_the_record(
    world: World, tmp_path: Path, params: dict[str, Any], code: int, state: NodeRunState, verdict: Verdict | None
) -> None:
    by_hand = export(world, tmp_path, "free", **params)

    ended, seen = by_hand.play(*BEGIN)

    assert ended == code, seen
    node_run = imported(world, by_hand)
    assert (node_run.state, node_run.verdict) == (state, verdict), seen


def test_ctrl_c_stops_the_script_on_the_node(world: World, tmp_path: Path) -> None:
    wait = tmp_path / "go"
    by_hand = export(world, tmp_path, "free", wait=str(wait))
    with by_hand.start() as terminal:
        terminal.answer(*BEGIN)
        eventually(Path(f"{wait}.acted").exists)
        terminal.interrupt()
        code = terminal.end()

    assert (code, "ENDED cancelled" in terminal.seen) == (1, True), terminal.seen
    assert imported(world, by_hand).state is NodeRunState.CANCELLED


def test_a_killed_script_goes_on_and_runs_nothing_twice(world: World, tmp_path: Path) -> None:
    wait = tmp_path / "go"
    by_hand = export(world, tmp_path, "free", wait=str(wait))
    acted = Path(f"{wait}.acted")
    with by_hand.start() as terminal:
        terminal.answer(*BEGIN)
        eventually(acted.exists)
        terminal.kill()
    with by_hand.journal.open("a") as journal:
        journal.write('{"seq":99,"torn')
    wait.touch()

    code, seen = by_hand.play(*BEGIN)

    assert code == 0, seen
    assert "ENDED succeeded, verdict cured" in seen
    assert len(acted.read_text().splitlines()) == 1
    assert by_hand.events().count("resumed") == 1
    node_run = imported(world, by_hand)
    assert (node_run.state, node_run.verdict) == (NodeRunState.SUCCEEDED, Verdict.CURED)


def test_ctrl_c_at_a_gate_ends_it_with_nothing_run(world: World, tmp_path: Path) -> None:
    by_hand = export(world, tmp_path, "confirm")
    with by_hand.start() as terminal:
        terminal.answer(*BEGIN)
        terminal.expect(YES[0])
        terminal.interrupt()
        code = terminal.end()

    assert code == 1, terminal.seen
    assert imported(world, by_hand).state is NodeRunState.CANCELLED


def test_a_gate_is_asked_again_where_its_terminal_was_lost(world: World, tmp_path: Path) -> None:
    by_hand = export(world, tmp_path, "second")
    with by_hand.start() as terminal:
        terminal.answer(*BEGIN, ("Name:", "bob"))
        terminal.expect(YES[0])
        terminal.kill()

    code, seen = by_hand.play(("Name:", "bob"), BEGIN[1], ("Name:", "bob"), ("Name:", "ann"), ("Name:", "cid"), YES)

    assert code == 0, seen
    assert imported(world, by_hand).verdict is Verdict.CURED


@pytest.mark.parametrize(
    ("answers", "run_exit", "state", "acts"),
    [
        ([YES], 0, NodeRunState.SUCCEEDED, 1),
        # A known failure is tried as often as the step wants, and asked about each time.
        ([YES, YES], 1, NodeRunState.FAILED, 2),
        ([(YES[0], "no"), ("Why not:", "no")], 0, NodeRunState.DENIED, 0),
    ],
)
def test_what_was_done_is_undone_however_it_ends(
    world: World, tmp_path: Path, answers: list[tuple[str, str]], run_exit: int, state: NodeRunState, acts: int
) -> None:
    by_hand = export(world, tmp_path, "undoing", run_exit=run_exit, marks=str(tmp_path))

    _, seen = by_hand.play(*BEGIN, *answers)

    node_run = imported(world, by_hand)
    assert node_run.state is state, seen
    assert {one.step: str(one.outcome) for one in node_run.results} | {"act": ""} == {
        "look": "ok",
        "mark": "changed",
        "act": "",
        "unmark": "changed",
    }, seen
    assert not (tmp_path / "mark").exists()
    acted = tmp_path / "acted"
    assert (len(acted.read_text().splitlines()) if acted.exists() else 0) == acts


def test_a_script_over_whose_run_the_node_booted_is_stuck(world: World, tmp_path: Path) -> None:
    wait = tmp_path / "go"
    by_hand = export(world, tmp_path, "free", wait=str(wait))
    with by_hand.start() as terminal:
        terminal.answer(*BEGIN)
        eventually(Path(f"{wait}.acted").exists)
        terminal.kill()
    wait.touch()

    code, seen = by_hand.after_boot().play(*BEGIN)

    assert code == 4, seen
    assert "The node booted while step touch ran" in seen
    node_run = imported(world, by_hand)
    assert (node_run.state, node_run.verdict) == (NodeRunState.STUCK, Verdict.UNKNOWN)


def test_a_gate_from_before_a_boot_is_void_and_opened_anew(world: World, tmp_path: Path) -> None:
    by_hand = export(world, tmp_path, "confirm")
    with by_hand.start() as terminal:
        terminal.answer(*BEGIN)
        terminal.expect(YES[0])
        terminal.kill()

    code, seen = by_hand.after_boot().play(*BEGIN, YES)

    assert code == 0, seen
    assert re.findall(r'"answer":"(\w+)"', by_hand.journal.read_text()) == ["void", "approved"]
    assert imported(world, by_hand).verdict is Verdict.CURED


def test_a_journal_that_was_changed_stops_everything(world: World, tmp_path: Path) -> None:
    by_hand = export(world, tmp_path, "confirm")
    with by_hand.start() as terminal:
        terminal.answer(*BEGIN)
        terminal.expect(YES[0])
        terminal.kill()
    by_hand.journal.write_text(by_hand.journal.read_text().replace('"by":"ann"', '"by":"eve"'))

    code, seen = by_hand.play()

    assert (code, "was changed: nothing is done" in seen) == (2, True), seen


def test_without_a_terminal_nothing_is_done(world: World, tmp_path: Path) -> None:
    by_hand = export(world, tmp_path, "look")

    done = by_hand.without_terminal()

    assert done.returncode == 2
    assert "There is no terminal, so nobody could be asked: nothing is done." in done.stderr
    assert not by_hand.journal.exists()


def test_a_wrong_machine_does_nothing(world: World, tmp_path: Path) -> None:
    by_hand = export(world, tmp_path, "look")

    code, seen = by_hand.play(("Name:", "ann"), ("type n00:", "n01"))

    assert (code, "Not sure: nothing is done." in seen) == (2, True), seen


def test_a_script_whose_bytes_were_changed_does_nothing(world: World, tmp_path: Path) -> None:
    by_hand = export(world, tmp_path, "look")
    by_hand.script.write_text(by_hand.script.read_text().replace('echo "this is', 'echo "that is'))

    code, seen = by_hand.play()

    assert (code, "are not those of the plan" in seen) == (2, True), seen


def test_a_runbook_for_two_places_is_refused(place: Installation) -> None:
    (place.folder / "config" / "inventory.yaml").write_text(
        "controllers: {head: {executor: local}}\n"
        "nodes: {n00: {executor: local, view: private, controller: head, attributes: {slurm_name: n00}}}\n"
    )
    shipped = Path(__file__).parents[2] / "runbooks"
    done = place("export", "drain-and-reboot-slurm", "--node", "n00", env={"UNSTICK_RUNBOOKS": str(shipped)})

    assert done.returncode == 2
    assert "runs on the controller, and one script runs in one place." in done.stderr
