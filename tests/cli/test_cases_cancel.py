"""`unstick cancel` while a script runs on a node: it promises nothing, and then really ends it."""

from tests.cli.installation import Someone, eventually


def test_a_cancel_says_that_the_command_may_still_run_and_then_ends_it_on_the_node(ann: Someone, node: str) -> None:
    waits_for = ann.place.folder / f"{node}-go"
    acted = ann.place.folder / f"{node}-go.acted"
    with ann.start("run", "free", "--node", node, "--param", f"wait={waits_for}", "--wait") as waiting:
        eventually(acted.exists)
        run_id = ann.latest(node)["id"]
        cancelled = ann("cancel", run_id, "--reason", "wrong node")
        told, _ = waiting.communicate()

    (attempt,) = [one for one in ann.run(run_id)["nodes"][0]["steps"][0]["attempts"] if one["script"] == "run"]
    again = ann("cancel", run_id)
    assert cancelled.returncode == 0
    assert cancelled.stdout.splitlines() == [
        f"Cancel of run {run_id} is requested; a command on a node may still be running until `unstick show` tells.",
        f"  unstick show {run_id}",
    ]
    assert told.splitlines()[0] == f"run {run_id} cancelled"
    assert (attempt["state"], attempt["exit_code"], attempt["signal"], attempt["reason"]) == (
        "finished",
        None,
        15,
        "The script was stopped, and nothing of it runs any more.",
    )
    assert acted.read_text() == f"{attempt['id']}\n"
    assert (again.returncode, again.stderr) == (
        2,
        f"Run {run_id} has ended; a terminal state does not change.\n`unstick show` tells how.\n",
    )
