"""kill -9 before and after every store write and executor call in the second half of a run, then a restart."""

from pathlib import Path

import pytest

from tests.crash.machine import PretendMachine
from tests.crash.matrix import Undisturbed, faults_at


@pytest.mark.parametrize("half", [0, 1])
def test_every_late_boundary_ends_as_the_undisturbed_run(
    half: int, undisturbed: Undisturbed, machine: PretendMachine, config: Path, tmp_path: Path
) -> None:
    every = len(undisturbed.boundaries)

    wrong = faults_at(
        range(every // 2 + 1, every + 1)[half::2], tmp_path, machine=machine, config=config, undisturbed=undisturbed
    )

    assert wrong == []
