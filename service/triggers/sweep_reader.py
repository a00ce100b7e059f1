"""Turns one entry of `sweeps` into a sweep, or into what is wrong with it; and reads findings for a test."""

from datetime import timedelta

from service.domain.alert import AlertSourceKind
from service.domain.condition import compile_condition
from service.domain.errors import InvalidInput
from service.domain.rule import AlertSource
from service.domain.schedule import read_schedule
from service.domain.sweep import SOURCE, Sweep
from service.triggers.rules_schema import SelectorEntry, SweepEntry
from service.triggers.runbook_faults import RuleFault


def read_sweep(entry: SweepEntry) -> Sweep | RuleFault:
    """Return the sweep that an entry describes, or the first fault that keeps it from being one."""
    if entry.pool is not None and entry.selector is not None:
        return RuleFault(("pool",), "is given beside `selector`.", "Give one of them.")
    if entry.selector is not None and entry.selector.pool is None and not entry.selector.attributes:
        return RuleFault(("selector",), "selects nothing in particular.", "Name a pool or an attribute, or remove it.")
    try:
        schedule = read_schedule(entry.cron)
    except InvalidInput as error:
        return RuleFault(("cron",), error.reason, error.way_out)
    if entry.jitter > timedelta(0) and entry.jitter >= schedule.shortest_gap():
        reason = f"is as long as the time between two of `{schedule.text}`, so that they would change places."
        return RuleFault(("jitter",), reason, "Shorten it.")
    selector = entry.selector or SelectorEntry()
    return Sweep(
        entry.name,
        entry.runbook,
        schedule,
        pool=entry.pool if entry.pool is not None else selector.pool,
        attributes=dict(selector.attributes),
        params=dict(entry.params),
        jitter=entry.jitter,
        nodes_at_once=entry.nodes_at_once,
        ends_within=entry.ends_within,
    )


def swept_source() -> AlertSource:
    """Return what reads a finding for a test of rules, in the words of `unstick alerts ALERT --json`."""
    words = ("fingerprint", "status", "labels", "annotations", "starts_at", "link")
    mapping = {word: compile_condition(f"item.{word}", frozenset({"item"})) for word in words}
    return AlertSource(SOURCE, AlertSourceKind.GENERIC, mapping=mapping)
