"""Gates under everything that may happen to them, in ten thousand steps and more."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.proof.counts import count
from tests.support.gate_machine import GateMachine

pytestmark = pytest.mark.proof

EXAMPLES = count("gate_examples", 220)
STEPS = 50


def test_in_any_order_one_decision_a_gate_and_nothing_acts_without_a_live_one(
    record_property: Callable[[str, object], None],
) -> None:
    GateMachine.played.clear()
    many = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )

    run_state_machine_as_test(GateMachine, settings=many)

    played = GateMachine.played
    acted = {what: number for what, number in played.items() if what.startswith("acted")}
    record_property("proof", "gates in any order of requests, answers, overrides, edits, clocks and restarts")
    behind = ", ".join(f"{number} {what}" for what, number in sorted(acted.items()))
    record_property("count", f"{played['rules']} steps, {played['restart']} restarts; {behind}")
    assert played["rules"] >= EXAMPLES * STEPS * 0.9
    assert all(acted.get(f"acted by a gate {state}", 0) >= EXAMPLES // 4 for state in ("approved", "overridden"))
