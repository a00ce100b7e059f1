"""A few sends of every ambiguous kind, as the service sends and asks; tests/proof repeats it a thousand times."""

from pathlib import Path

import pytest

from service.executors.ssm.gateway import Patience
from tests.executors.ssm.sends import AMBIGUOUS, KINDS, ambiguous_sends, sends_on

pytestmark = pytest.mark.needs_root


def test_after_ambiguous_sends_no_script_has_run_twice_and_none_that_ran_is_called_not_started(tmp_path: Path) -> None:
    with sends_on(6, tmp_path, patience=Patience(connect=2.0, answer=2.0)) as sends:
        lost = ambiguous_sends(sends, 2 * len(KINDS))

        assert sends.wrong() == []
        assert sends.states().total() == 2 * len(KINDS)
        assert lost >= 2 * len(AMBIGUOUS)
