"""run, runs, show, retry, cancel and their exit codes, against a real service and real scripts."""

import json
import subprocess

import pytest

from tests.cli.installation import PATIENCE, Serving, Someone, eventually


def run_id_of(done: subprocess.CompletedProcess[str]) -> str:
    return str(json.loads(done.stdout)["id"])


def test_an_accepted_run_exits_0_with_its_id(ann: Someone, node: str) -> None:
    done = ann("run", "look", "--node", node)

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("run ")
    assert done.stdout.splitlines()[0].endswith(" accepted")


def test_a_run_that_succeeds_exits_0(ann: Someone, node: str) -> None:
    done = ann("run", "free", "--node", node, "--wait")

    assert (done.returncode, done.stdout.splitlines()[-1].split()[2:]) == (0, ["succeeded:", "cured"])


def test_a_run_that_fails_exits_1_and_says_what_to_type(ann: Someone, node: str) -> None:
    done = ann("run", "free", "--node", node, "--param", "verify_exit=77", "--wait")

    assert done.returncode == 1
    assert "unstick retry" in done.stdout


def test_a_run_at_an_open_gate_exits_3(ann: Someone, node: str) -> None:
    done = ann("run", "second", "--node", node, "--wait")

    assert done.returncode == 3
    assert "unstick approve" in done.stdout


def test_a_stuck_run_exits_4_and_resolve_goes_on(ann: Someone, node: str) -> None:
    done = ann("run", "free", "--node", node, "--param", "verify_exit=3", "--wait", "--json")
    run_id = run_id_of(done)

    told = ann("show", run_id)
    resolved = ann("resolve", run_id, node, "--as", "failed", "--reason", "it is broken")

    assert done.returncode == 4
    assert f"unstick resolve {run_id} {node} --as settle_again" in told.stdout
    assert resolved.returncode == 0, resolved.stderr
    eventually(lambda: ann.run(run_id)["state"] == "failed")
    (said,) = ann.run(run_id)["nodes"][0]["resolutions"]
    assert (said["as"], said["by"], said["reason"]) == ("failed", "ann", "it is broken")
    assert [line.split() for line in ann("show", run_id).stdout.splitlines() if "it is broken" in line][1] == [
        node,
        "failed",
        "ann",
        said["at"],
        "it",
        "is",
        "broken",
    ]


def test_a_cancelled_run_exits_1(ann: Someone, node: str) -> None:
    with ann.start("run", "confirm", "--node", node, "--wait=end", "--json") as waiting:
        eventually(lambda: ann.latest(node).get("state") == "waiting")
        run_id = ann.latest(node)["id"]
        cancelled = ann("cancel", run_id, "--reason", "wrong node")
        code = waiting.wait(PATIENCE)
    again = ann("cancel", run_id)

    assert (cancelled.returncode, code, again.returncode) == (0, 1, 2)
    assert "may still be running" in cancelled.stdout
    assert "has ended" in again.stderr


def test_a_denied_run_exits_1_and_can_be_retried(ann: Someone, bob: Someone, node: str) -> None:
    with ann.start("run", "second", "--node", node, "--wait=end", "--json") as waiting:
        eventually(lambda: ann.latest(node).get("state") == "waiting")
        run_id = ann.latest(node)["id"]
        denied = bob("deny", run_id, "--reason", "not tonight")
        code = waiting.wait(PATIENCE)
    again = ann("retry", run_id, "--wait", "--json")

    assert (denied.returncode, code, again.returncode) == (0, 1, 3)
    assert json.loads(again.stdout)["retry_of"] == run_id


def test_an_expired_gate_ends_the_run_with_exit_1(ann: Someone, node: str) -> None:
    done = ann("run", "brief", "--node", node, "--wait=end")

    assert done.returncode == 1
    assert " expired" in done.stdout
    assert "unstick retry" in done.stdout


def test_a_dry_run_that_would_change_exits_0_and_acts_not(ann: Someone, node: str) -> None:
    done = ann("run", "second", "--node", node, "--dry-run", "--wait", "--json")

    run = json.loads(done.stdout)
    scripts = [attempt["script"] for attempt in run["nodes"][0]["steps"][0]["attempts"]]
    assert done.returncode == 0
    assert run["nodes"][0]["steps"][0]["outcome"] == "would_change"
    assert "run" not in scripts


def test_a_dry_run_that_would_change_something_does_not_read_as_if_all_were_well(ann: Someone, node: str) -> None:
    done = ann("run", "second", "--node", node, "--dry-run", "--wait")
    run_id = ann.latest(node)["id"]
    shown = ann("show", run_id)

    changes = f"it would change {node} (step touch, 1 target); nothing was changed"
    assert done.stdout.splitlines() == [
        f"run {run_id} succeeded (dry run): {changes}",
        f"  unstick show {run_id} --output  # what the checks saw",
    ]
    assert shown.stdout.splitlines()[1] == f"It{changes[2:]}."
    assert shown.stdout.splitlines()[-1] == f"  unstick show {run_id} --output  # what the checks saw"
    assert f"{node}: looked at, and nothing was changed" in done.stderr


def test_a_dry_run_that_could_not_look_exits_1(ann: Someone, node: str) -> None:
    done = ann("run", "second", "--node", node, "--dry-run", "--param", "check_exit=5", "--wait")

    assert done.returncode == 1


def test_wait_end_goes_on_at_an_open_gate(ann: Someone, bob: Someone, node: str) -> None:
    earlier = ann.request("second", node)
    words = ("run", "second", "--node", node, "--take-over", "--idempotency-key", f"key-{node}")
    with ann.start(*words, "--wait=end") as waiting:
        run_id = run_id_of(ann(*words, "--json"))
        eventually(lambda: bool(ann.run(run_id)["gates"]))

        bob("approve", run_id, "--yes")
        code = waiting.wait(PATIENCE)

    assert code == 0
    assert "taken over by ann" in ann.run(earlier)["nodes"][0]["reason"]


def test_the_same_idempotency_key_gives_the_same_run(ann: Someone, node: str) -> None:
    first = ann("run", "look", "--node", node, "--idempotency-key", f"same-{node}", "--json")
    second = ann("run", "look", "--node", node, "--idempotency-key", f"same-{node}", "--json")

    assert run_id_of(first) == run_id_of(second)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "look", "--node", "n99"), "There is no node n99"),
        (("run", "absent", "--node", "n00"), "There is no runbook absent"),
        (("run", "look"), "Name nodes, a pool, or an attribute that nodes have."),
        (("run", "free", "--node", "n00", "--param", "run_exit=many"), "whole number"),
        (("run", "look", "--pool", "h100"), "No node is in the pool h100."),
        (("run", "look", "--node", "n00", "--wait=never"), "--wait=never"),
        (("show", "0198c3a2-0000-7000-8000-000000000000"), "There is no run"),
        (("approve", "0198c3a2-0000-7000-8000-000000000000"), "There is no gate"),
    ],
)
def test_what_is_refused_exits_2_with_one_reason_and_the_way_out(
    ann: Someone, arguments: tuple[str, ...], words: str
) -> None:
    done = ann(*arguments)

    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_viewer_may_read_and_not_request(vera: Someone, node: str) -> None:
    assert vera("runs").returncode == 0
    assert vera("run", "look", "--node", node).returncode == 2


def test_without_a_token_the_way_to_one_is_told(service: Serving) -> None:
    done = service.place("runs", env={"UNSTICK_URL": service.url})

    assert done.returncode == 2
    assert "unstick token create" in done.stderr


def test_where_nobody_answers_the_way_out_is_told(service: Serving) -> None:
    done = service.place("runs", env={"UNSTICK_URL": "http://127.0.0.1:9", "UNSTICK_TOKEN": "unstick_x"})

    assert done.returncode == 2
    assert "Nobody answers at http://127.0.0.1:9." in done.stderr
    assert "unstick serve" in done.stderr


def test_runs_are_listed_page_by_page_with_the_command_for_the_next(ann: Someone, node: str) -> None:
    for _ in range(3):
        ann.request("look", node)

    first = ann("runs", "--node", node, "--limit", "2")
    words = first.stdout.splitlines()[-1].split()
    second = ann(*words[1:])

    ids = [line.split()[0] for line in (*first.stdout.splitlines()[1:3], *second.stdout.splitlines()[1:])]
    assert words[:2] == ["unstick", "runs"]
    assert len(set(ids)) == 3


def test_a_terminal_gets_a_table_with_colours_unless_no_color_is_set(ann: Someone, node: str) -> None:
    run_id = ann.request("free", node)

    _, coloured = ann.on_terminal("runs", "--node", node)
    _, plain = ann.on_terminal("runs", "--node", node, no_color=True)

    assert "\x1b[32m" in coloured
    assert "\x1b[3" not in plain
    assert run_id in coloured
    assert run_id in plain


def test_show_output_prints_what_the_scripts_said_with_control_characters_escaped(ann: Someone, node: str) -> None:
    run_id = ann.request("free", node)

    done = ann("show", run_id, "--output")

    assert f"   looked at {node}" in done.stdout.splitlines()
    assert "acted, \\x1b[31mred" in done.stdout
    assert "\x1b" not in done.stdout


def test_a_held_node_refuses_a_run_until_it_is_released(ann: Someone, node: str) -> None:
    held = ann("hold", node, "--reason", "the vendor looks at it", "--until", "2h")
    refused = ann("run", "look", "--node", node)
    again = ann("hold", node, "--reason", "memtest")
    listed = ann("nodes")
    released = ann("release", node)
    after = ann("run", "look", "--node", node)

    assert [one.returncode for one in (held, refused, again, released, after)] == [0, 2, 2, 0, 0]
    assert "It is your own" in again.stderr
    assert ": the vendor looks at it" in listed.stdout
    assert released.stdout == f"{node} is released; it was on hold by ann: the vendor looks at it\n"
    assert "the vendor looks at it" in refused.stderr
    assert f"unstick release {node}" in refused.stderr


def test_a_timeline_is_told_as_markdown_json_and_csv(ann: Someone, node: str) -> None:
    run_id = ann.request("free", node)

    markdown = ann("audit", "timeline", "--run", run_id)
    rows = json.loads(ann("audit", "timeline", "--run", run_id, "--format", "json").stdout)
    table = ann("audit", "timeline", "--node", node, "--format", "csv")
    neither = ann("audit", "timeline")

    assert markdown.stdout.startswith(f"# Run {run_id}")
    assert [rows[0]["action"], rows[-1]["action"]] == ["run.requested", "run.ended"]
    assert table.stdout.startswith("at,seq,person")
    assert neither.returncode == 2


def test_the_audit_is_listed_by_person(ann: Someone, node: str) -> None:
    ann.request("look", node)

    done = ann("audit", "list", "--person", "ann", "--action", "run.requested", "--limit", "1", "--json")

    assert [event["person"] for event in json.loads(done.stdout)["items"]] == ["ann"]
