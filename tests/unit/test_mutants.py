"""The mutants that `make proof` plays are those of the program as it is: each place is there once, and each test."""

import re
from pathlib import Path

import pytest

from tools.mutants import MUTANTS
from tools.mutants.table import Edit, MutantError, changed

ROOT = Path(__file__).parents[2]


def test_each_mutant_changes_a_place_that_is_there_once() -> None:
    lost = []
    for mutant in MUTANTS:
        texts = {edit.file: (ROOT / edit.file).read_text() for edit in mutant.edits}
        for edit in mutant.edits:
            try:
                texts[edit.file] = changed(texts[edit.file], edit)
            except MutantError as error:
                lost.append(f"{mutant.name}: {error}")

    assert lost == []


def test_each_mutant_names_tests_that_are_there_and_no_other_has_its_name() -> None:
    names = [mutant.name for mutant in MUTANTS]
    lost = []
    for test in {test for mutant in MUTANTS for test in mutant.tests}:
        file, _, name = test.partition("::")
        wanted = rf"^ *def {name.partition('[')[0]}\(" if name else ""
        if not (ROOT / file).is_file() or not re.search(wanted, (ROOT / file).read_text(), re.MULTILINE):
            lost.append(test)

    assert (lost, len(set(names))) == ([], len(names))


@pytest.mark.parametrize(("text", "places"), [("two", 0), ("one, one", 2)])
def test_a_replacement_that_does_not_match_once_is_an_error(text: str, places: int) -> None:
    with pytest.raises(MutantError, match=f"has {places} places"):
        changed(text, Edit("x.py", "one", "1"))
