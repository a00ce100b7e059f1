"""Is the preview right? Twelve faults that sleep until the boot, as many harmless changes, each really booted."""

from collections.abc import Callable
from pathlib import Path

import pytest

from lab.nodes import Node
from service.domain.node import ExecutorKind
from service.domain.script import ScriptKind
from tests.cures.boot_faults import FAULTS, GOOD, HEALTHY, Seed, boot, do, equip
from tests.cures.cure import Cure
from tests.proof.counts import count

pytest_plugins = ["lab.fixtures"]
pytestmark = [pytest.mark.proof, pytest.mark.needs_root]


@pytest.mark.parametrize(("kind", "seeds"), [("seeded faults", FAULTS), ("healthy nodes", HEALTHY)])
def test_what_was_said_of_the_next_boot_is_what_happens(
    kind: str,
    seeds: tuple[Seed, ...],
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    chosen = seeds[: count("boots", len(seeds))]
    record_property("proof", f"next-boot preview of {kind}, each then really booted")
    told = []

    for number, seed in enumerate(chosen):
        folder = tmp_path / str(number)
        folder.mkdir()
        with Node("gpu-01") as node:
            equip(node)
            do(node, *seed.commands)
            said = preview(folder, node)
            told.append((seed.name, seed.becomes, worst(said), boot(node)))
        if seed.finding:
            assert f"{seed.becomes}: {seed.finding}" in said

    print(table(told))
    right = sum(predicted == happened for _, _, predicted, happened in told)
    record_property("count", f"{right} of {len(told)} foretold rightly")
    assert [row[1:] for row in told] == [(seed.becomes,) * 3 for seed in chosen]


def preview(folder: Path, node: Node) -> str:
    """Return what the runbook says of a node, over SSH."""
    cure = Cure.build(folder, node, executor=ExecutorKind.SSH)
    try:
        run = cure.request("next-boot")
        cure.end(run)
        return cure.said(run, "comes-back", kind=ScriptKind.VERIFY)
    finally:
        cure.close()


def worst(said: str) -> str:
    """Return how bad the worst finding is; notes count for nothing."""
    level = said.partition(": ")[0]
    return GOOD if level in ("note", "next boot") else level


def table(told: list[tuple[str, str, str, str]]) -> str:
    """Return the rows as people read them."""
    rows = (("seeded", "meant", "foretold", "happened"), *told)
    return "\n".join(f"{name:58} | {meant:18} | {said:18} | {became}" for name, meant, said, became in rows)
