"""Sweeps for tests: a schedule each ten minutes, and the hands of the engine."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from service.app.judge_alerts import judge_due
from service.app.sweep_due import play_due_sweeps
from service.app.sweep_fleet import FleetRow, fleet
from service.app.sweep_places import end_late, give_places
from service.domain.policy import Policy
from service.domain.rule import Rule, RuleSet
from service.domain.run import Run
from service.domain.schedule import read_schedule
from service.domain.sweep import Finding, Sweep, SweepState
from tests.app.alerting import WIDE, Fixed
from tests.support.world import World


def sweep(name: str = "nightly", *, cron: str = "*/10 * * * *", **changed: Any) -> Sweep:
    """Return a sweep of the runbook `cure` over every node."""
    return replace(Sweep(name, "cure", read_schedule(cron)), **changed)


def schedule(world: World, *sweeps: Sweep, rules: tuple[Rule, ...] = (), policy: Policy = WIDE) -> World:
    """Give the service of a world these sweeps, and reckon their times."""
    world.service = replace(world.service, rules=Fixed(RuleSet({}, rules, sweeps)), policy=Fixed(policy))
    play_due_sweeps(world.service)
    return world


def state(world: World, name: str = "nightly") -> SweepState:
    """Return how a schedule stands."""
    found = world.service.store.read(lambda reader: reader.sweep_state(name))
    assert found is not None
    return found


def come(world: World, name: str = "nightly", *, late: timedelta = timedelta(0)) -> int:
    """Let the next time of a sweep come, or some time after it, and play what is due."""
    world.move_to(state(world, name).next_at + late)
    return play_due_sweeps(world.service)


def turn(world: World) -> None:
    """Do what the engine does, until nothing is left to be done at this moment."""
    for _ in range(2000):
        if not (world.step() or judge_due(world.service) or give_places(world.service) or end_late(world.service)):
            return
    raise AssertionError("it does not come to rest")


def look(world: World, name: str = "nightly") -> Run:
    """Let the next time come, and the sweep end."""
    assert come(world, name) == 1
    turn(world)
    return last_run(world, name)


def last_run(world: World, name: str = "nightly") -> Run:
    """Return the last run of a sweep."""
    run_id = state(world, name).last_run_id
    assert run_id is not None
    return world.service.store.read(lambda reader: reader.run(run_id))


def row(world: World, node: str = "gpu-01", *, name: str = "nightly") -> FleetRow:
    """Return the row of one node."""
    return next(one for one in fleet(world.service, sweep=name)[0] if one.node == node)


def found(world: World, node: str = "gpu-01", *, name: str = "nightly") -> Finding | None:
    """Return what the newest look at a node says."""
    seen = row(world, node, name=name).look
    return seen.finding if seen is not None else None
