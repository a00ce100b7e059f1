"""A defect in each promise that matters is noticed by a quick test."""

from collections.abc import Callable

import pytest

from tools.mutants import MUTANTS, Copy, Mutant, MutantError, play

pytestmark = [pytest.mark.proof, pytest.mark.needs_root]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """Give a copy of the program and its tests."""
    return Copy(tmp_path_factory.mktemp("mutants").resolve())


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_mutant_is_caught(copy: Copy, mutant: Mutant, record_property: Callable[[str, object], None]) -> None:
    caught = play(copy, mutant)

    print(f"\n{mutant.name}: {caught or 'SURVIVED'}")
    record_property("proof", f"mutant: {mutant.name}")
    record_property("count", f"1, caught by {caught.rpartition('::')[2]}" if caught else "1, caught by nobody")
    assert caught is not None


def test_a_replacement_that_matches_nothing_is_an_error(copy: Copy) -> None:
    mutant = MUTANTS[0]
    lost = Mutant(mutant.name, tuple(type(edit)(edit.file, "no such text", "") for edit in mutant.edits), mutant.tests)

    with pytest.raises(MutantError, match="has 0 places"):
        play(copy, lost)
