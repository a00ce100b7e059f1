"""Exit codes and next commands, as a table."""

from typing import Any

import pytest

from service.cli.next_commands import next_commands
from service.cli.waiting import Exit, Until, exit_code, progress, under_way

GATE = {"id": "g1", "node": "n1", "step": "touch", "state": "open", "kind": "confirm"}


def run(state: str, *, outcome: str | None = None, gate: bool = False, dry_run: bool = False) -> dict[str, Any]:
    steps = [{"id": "touch", "outcome": outcome}]
    node = {"node": "n1", "state": state, "verdict": None, "reason": "", "steps": steps}
    return {"id": "r1", "state": state, "dry_run": dry_run, "gates": [GATE] if gate else [], "nodes": [node]}


@pytest.mark.parametrize(
    ("seen", "until", "code"),
    [
        (run("queued"), Until.GATE, None),
        (run("running"), Until.GATE, None),
        (run("waiting"), Until.GATE, None),
        (run("waiting", gate=True), Until.GATE, Exit.GATE_OPEN),
        (run("running", gate=True), Until.GATE, Exit.GATE_OPEN),
        (run("waiting", gate=True), Until.END, None),
        (run("stuck"), Until.GATE, Exit.STUCK),
        (run("stuck"), Until.END, Exit.STUCK),
        (run("succeeded", outcome="changed"), Until.GATE, Exit.SUCCEEDED),
        (run("failed", outcome="failed"), Until.END, Exit.BAD_END),
        (run("denied"), Until.END, Exit.BAD_END),
        (run("expired"), Until.END, Exit.BAD_END),
        (run("cancelled"), Until.END, Exit.BAD_END),
        (run("succeeded", outcome="would_change", dry_run=True), Until.GATE, Exit.SUCCEEDED),
        (run("succeeded", outcome="ok", dry_run=True), Until.GATE, Exit.SUCCEEDED),
        (run("succeeded", outcome="skipped", dry_run=True), Until.GATE, Exit.SUCCEEDED),
        (run("succeeded", outcome="failed", dry_run=True), Until.GATE, Exit.BAD_END),
        (run("failed", outcome="unreachable", dry_run=True), Until.GATE, Exit.BAD_END),
    ],
)
def test_each_state_has_its_exit_code(seen: dict[str, Any], until: Until, code: Exit | None) -> None:
    assert exit_code(seen, until=until) == code


def test_exit_codes_are_those_that_scripts_rely_on() -> None:
    assert {one.name: int(one) for one in Exit} == {"SUCCEEDED": 0, "BAD_END": 1, "GATE_OPEN": 3, "STUCK": 4}


@pytest.mark.parametrize(
    ("seen", "command"),
    [
        (run("waiting", gate=True), "unstick approve g1"),
        (run("waiting"), "unstick show r1"),
        (run("stuck"), "unstick show r1 --output"),
        (run("failed"), "unstick show r1 --output"),
        (run("expired"), "unstick retry r1"),
        (run("denied"), "unstick show r1"),
        (run("cancelled"), "unstick show r1"),
    ],
)
def test_a_run_that_waits_or_ends_badly_names_the_next_command(seen: dict[str, Any], command: str) -> None:
    assert next_commands(seen)[0].split("  # ")[0] == command


def test_a_stuck_run_shows_how_to_resolve_it() -> None:
    assert any("unstick resolve r1 n1 --as settle_again" in command for command in next_commands(run("stuck")))


def test_a_node_that_booted_is_not_asked_again() -> None:
    seen = run("stuck")
    seen["nodes"][0]["steps"][0]["attempts"] = [
        {"number": 1, "script": "check", "state": "finished"},
        {"number": 2, "script": "run", "state": "rebooted"},
    ]

    why = "if you saw that it did its work, and verify decides; or --as failed, retry"
    assert next_commands(seen)[1:] == [f"unstick resolve r1 n1 --as changed --reason '...'  # {why}"]


def test_a_good_end_asks_for_nothing() -> None:
    assert next_commands(run("succeeded")) == []


def test_progress_tells_a_step_once_it_has_an_outcome() -> None:
    assert list(progress(run("running", outcome="changed"))) == ["n1: touch changed"]


def test_progress_tells_what_a_queued_run_waits_for() -> None:
    seen = run("queued")
    seen["nodes"][0]["reason"] = "Run r0 has the node (waiting)."

    assert list(progress(seen)) == ["n1: queued: Run r0 has the node (waiting)."]


def test_a_script_under_way_is_told_with_how_long_it_may_take() -> None:
    seen = run("running") | {"params": {"hold_seconds": 60}}
    seen["nodes"][0]["steps"][0]["attempts"] = [{"script": "check", "state": "running"}]

    lines = list(under_way(seen, {"touch": 90}))

    assert lines == ["n1: the check of step touch is under way; it may take 90 seconds (hold_seconds is 60)"]


def test_a_run_behind_another_names_the_others_gate_and_the_ways_past_it() -> None:
    other = run("waiting", gate=True) | {"id": "r0"}
    behind = run("queued") | {"ahead": [other]}

    commands = next_commands(behind)

    assert [command.split("  # ")[0] for command in commands] == [
        "unstick show r0",
        "unstick approve g1",
        "unstick deny g1 --reason '...'",
        "unstick cancel r0",
        "unstick cancel r1",
        "unstick show r1",
        "unstick cancel r1",
    ]
    assert any("--take-over" in command for command in commands)


def test_who_may_not_answer_a_gate_is_never_told_to_approve_it() -> None:
    gate = GATE | {"kind": "second_person", "may_not_because": "ann requested this run."}

    commands = next_commands(run("waiting") | {"gates": [gate]})

    assert commands == [
        "# not you: ann requested this run.  # step touch on n1; who may types: unstick approve g1",
        "unstick cancel r1  # or withdraw the run",
    ]


@pytest.mark.parametrize(("kind", "words"), [("confirm", "the requester too"), ("second_person", "did not request")])
def test_the_approve_line_says_what_kind_of_gate_it_is(kind: str, words: str) -> None:
    assert words in next_commands(run("waiting") | {"gates": [GATE | {"kind": kind}]})[0]
