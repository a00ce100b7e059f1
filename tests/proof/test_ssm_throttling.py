"""AWS denies nineteen of twenty calls for minutes of its time: it becomes slow, and nothing becomes wrong."""

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.ssm import Outcome
from service.domain.run import AttemptState
from tests.executors.ssm.sends import Lane, sends_on
from tests.executors.ssm.support import FASTER
from tests.proof.counts import count

pytestmark = [pytest.mark.proof, pytest.mark.needs_root]
LANES = 8
#: The share of calls that are denied, of every operation.
DENIED = 0.95


def test_while_aws_throttles_for_minutes_every_script_ends_as_it_did_and_none_runs_twice(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    minutes = count("throttled_minutes", 10)
    early: Counter[AttemptState] = Counter()

    with sends_on(LANES, tmp_path) as sends:
        until = time.monotonic() + minutes * 60 / FASTER
        sends.server.faults.always(Outcome.THROTTLE, DENIED)

        def work(lane: Lane) -> None:
            """Send and ask while AWS throttles; what is open after that is asked about when it no longer does."""
            while time.monotonic() < until:
                attempt_id = sends.send(lane)
                sends.ask_until(lane, attempt_id, enough=lambda: time.monotonic() >= until)
                early[sends.attempt(lane, attempt_id).state] += 1
            sends.server.faults.clear()
            sends.ask_until(lane, attempt_id)

        sends.in_parallel(work)
        wrong, states, calls = sends.wrong(), sends.states(), sends.server.calls

    denied = sum(call.answered == "ThrottlingException" for call in calls)
    record_property(
        "proof", f"{DENIED:.0%} of all calls throttled for {minutes} minutes of AWS: true outcomes, none twice"
    )
    meanwhile = ", ".join(f"{number} {state}" for state, number in sorted(early.items()))
    told = f"{states.total()} scripts, when it ended {meanwhile}; {len(calls)} calls, {denied} denied"
    record_property("count", told)
    assert wrong == []
    assert set(states) <= {"finished", "not_started"}
    assert early[AttemptState.FINISHED] > 0
    assert denied > len(calls) / 2
