"""An exported script over a boot of its node, and steps that depend on how earlier ones have ended."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from service.domain.node import Confine
from service.domain.run import AttemptState, NodeRunState, Verdict
from tests.cli.installation import Installation, eventually
from tests.support.by_hand import BEGIN, export, imported, world_of
from tests.support.world import FixedInventory, World, outcomes

pytestmark = pytest.mark.needs_root

BOOTING = """\
schema: 1
name: booting
title: Boot the node
owner: tests
description: For the tests of the exported script.
params:
  look_exit: {type: integer, min: 0, max: 9, default: 0, description: How the look ends.}
  wait: {type: string, default: '', max_length: 300, description: A file for which run waits.}
steps:
  - id: look
    title: Look
    read_only: true
    timeout: 1m
    on_failure: continue
    run: |
      echo "it is up"
      exit "$PARAM_LOOK_EXIT"
  - id: boot
    title: Boot it
    timeout: 1m
    reboots: true
    on_failure: continue
    check: |
      echo it >"$UNSTICK_TARGETS"
    run: |
      echo "$UNSTICK_ATTEMPT" >>"$PARAM_WAIT.acted"
      while [ ! -e "$PARAM_WAIT" ]; do sleep 0.1; done
    verify: |
      grep -qx it "$UNSTICK_TARGETS"
  - id: boot-again
    title: Say that it has not booted
    when: steps.boot.outcome != "changed"
    timeout: 1m
    read_only: true
    run: |
      echo "not booted"
  - id: welcome
    title: Say that it is back
    when: steps.boot.outcome == "changed" && (steps.look.outcome == "ok" || params.look_exit == 3)
    timeout: 1m
    read_only: true
    run: |
      echo "back"
"""
#: A look that does not keep its promise.
TOUCHING = """\
schema: 1
name: touching
title: Touch what it looks at
owner: tests
description: For the tests of the exported script.
params:
  mark: {type: string, max_length: 300, description: What it touches.}
steps:
  - id: look
    title: Look
    read_only: true
    timeout: 1m
    run: |
      touch "$PARAM_MARK"
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Give what plans the scripts, and the record that takes their journals."""
    place = Installation(tmp_path / "place")
    (place.folder / "runbooks" / "booting.yaml").write_text(BOOTING)
    (place.folder / "runbooks" / "touching.yaml").write_text(TOUCHING)
    built = world_of(place.folder / "runbooks", tmp_path)
    yield built
    built.close()


@pytest.fixture
def disk() -> Iterator[Path]:
    """Give a folder that is not in memory."""
    with TemporaryDirectory(prefix="unstick-by-hand-", dir="/var/tmp") as folder:
        yield Path(folder)


def test_a_boot_that_the_runbook_makes_is_gone_over_and_proven(world: World, disk: Path) -> None:
    wait = disk / "go"
    by_hand = export(world, disk, "booting", wait=str(wait))
    with by_hand.start() as terminal:
        terminal.answer(*BEGIN)
        terminal.expect("come back and run this script again")
        eventually(Path(f"{wait}.acted").exists)
        terminal.kill()
    wait.touch()

    code, seen = by_hand.after_boot().play(*BEGIN)

    assert code == 0, seen
    assert len(Path(f"{wait}.acted").read_text().splitlines()) == 1
    node_run = imported(world, by_hand)
    assert (node_run.state, node_run.verdict) == (NodeRunState.SUCCEEDED, Verdict.CURED), seen
    assert {step: str(outcome) for step, outcome in outcomes(node_run).items()} == {
        "look": "ok",
        "boot": "changed",
        "boot-again": "skipped",
        "welcome": "ok",
    }


def test_nothing_of_a_boot_is_sent_while_nothing_is_stored_of_the_node(world: World, disk: Path) -> None:
    by_hand = export(world, disk, "booting", look_exit=3)

    code, seen = by_hand.play(*BEGIN)

    assert (code, by_hand.events().count("intended")) == (1, 2), seen
    node_run = imported(world, by_hand)
    assert {step: str(outcome) for step, outcome in outcomes(node_run).items()} == {
        "look": "failed",
        "boot": "failed",
        "boot-again": "ok",
        "welcome": "skipped",
    }


def _let(world: World, confine: Confine) -> None:
    assert isinstance(world.service.inventory, FixedInventory)
    known = world.service.inventory.inventory
    node = replace(known.nodes["n00"], endpoint=replace(known.nodes["n00"].endpoint, confine=confine))
    world.service.inventory.inventory = replace(known, nodes={**known.nodes, "n00": node})


@pytest.mark.parametrize(("confine", "kept"), [(Confine.TRY, True), (Confine.OFF, False)])
def test_a_look_by_hand_is_kept_from_touching_the_node(
    world: World, disk: Path, *, confine: Confine, kept: bool
) -> None:
    mark = disk / "mark"
    _let(world, confine)
    by_hand = export(world, disk, "touching", mark=str(mark))

    code, seen = by_hand.play(*BEGIN)

    assert (code, mark.exists(), "unconfined: n00" in seen) == (1 if kept else 0, not kept, not kept), seen
    [attempt] = world.history(imported(world, by_hand)).attempts
    assert (attempt.state, attempt.exit_code == 0) == (AttemptState.FINISHED, not kept)


def test_a_journal_in_memory_is_refused_where_a_boot_may_come(world: World, tmp_path: Path) -> None:
    with TemporaryDirectory(prefix="unstick-by-hand-", dir="/dev/shm") as memory:
        by_hand = replace(export(world, tmp_path, "booting"), environment={"UNSTICK_JOURNAL": f"{memory}/it.journal"})

        code, seen = by_hand.play()

    assert (code, "would be gone with a boot" in seen) == (2, True), seen


def test_a_script_whose_journal_is_elsewhere_is_not_played_twice(world: World, tmp_path: Path) -> None:
    by_hand = export(world, tmp_path, "look")
    assert by_hand.play(*BEGIN)[0] == 0
    by_hand.journal.rename(tmp_path / "elsewhere")

    code, seen = by_hand.play()

    assert (code, "was begun here already" in seen) == (2, True), seen
    assert by_hand.journal.read_text() == ""
