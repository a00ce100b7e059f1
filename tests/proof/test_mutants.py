"""A defect in each promise that matters is noticed by a quick test."""

from collections.abc import Callable, Iterator

import pytest

from tools.mutants import MUTANTS
from tools.mutants.playing import Copy, play
from tools.mutants.table import Mutant

pytestmark = [pytest.mark.proof, pytest.mark.needs_root]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    """Give a copy of the program and its tests."""
    made = Copy(tmp_path_factory.mktemp("mutants").resolve())
    yield made
    made.close()


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_mutant_is_caught(copy: Copy, mutant: Mutant, record_property: Callable[[str, object], None]) -> None:
    caught = play(copy, mutant)

    print(f"\n{mutant.name}: {caught or 'SURVIVED'}")
    record_property("proof", f"mutant: {mutant.name}")
    record_property("count", f"1, caught by {caught.rpartition('::')[2]}" if caught else "1, caught by nobody")
    assert caught is not None
