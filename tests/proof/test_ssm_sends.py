"""A thousand scripts over SSM after which nobody knows whether their command was accepted."""

from collections.abc import Callable
from pathlib import Path

import pytest

from service.executors.ssm.gateway import Patience
from tests.executors.ssm.sends import AMBIGUOUS, KINDS, ambiguous_sends, sends_on
from tests.proof.counts import count

pytestmark = [pytest.mark.proof, pytest.mark.needs_root]
#: Instances, each with a /run of its own.
LANES = 8


def test_after_ambiguous_sends_no_script_has_run_twice_and_none_that_ran_is_called_not_started(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    wanted = count("sends", 1000)
    attempts = -(-wanted * len(KINDS) // len(AMBIGUOUS))

    with sends_on(LANES, tmp_path, patience=Patience(connect=5.0, answer=3.0)) as sends:
        lost = ambiguous_sends(sends, attempts)
        wrong, states = sends.wrong(), sends.states()

    record_property("proof", "ambiguous sends over SSM: no script ran twice, none that ran was called not started")
    told = ", ".join(f"{number} {state}" for state, number in sorted(states.items()))
    record_property("count", f"{lost} lost answers, {attempts} scripts: {told}")
    assert wrong == []
    assert states.total() == attempts
    assert lost >= wanted
