"""Gates under everything that may happen to them, a few times; `make proof` does it often."""

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.support.gate_machine import GateMachine


def test_one_decision_a_gate_and_nothing_acts_without_a_live_one() -> None:
    few = settings(
        max_examples=4,
        stateful_step_count=25,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )

    run_state_machine_as_test(GateMachine, settings=few)
