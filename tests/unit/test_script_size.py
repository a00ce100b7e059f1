"""A script that Run Command could not carry is refused before anybody runs it."""

import pytest

from service.app.runbook_rules import LONGEST_SCRIPT
from service.domain.script import render
from tests.unit.runbook_text import HEAD, STEP, findings, script_of

#: What stands around the body of a script.
AROUND = len(render(prelude="", body="", environment={}))


def sized(length: int) -> str:
    """Return a body with which a script has a length."""
    return "true " + "x" * (length - AROUND - len("true \n"))


@pytest.mark.parametrize(("length", "refused"), [(LONGEST_SCRIPT, False), (LONGEST_SCRIPT + 1, True)])
def test_a_script_is_refused_by_its_length(length: int, refused: bool) -> None:
    told = [text for text in findings(script_of(sized(length))) if "bytes long" in text]

    expected = f"11: Step a: `run` is {length} bytes long with its prelude; SSM carries 32768. Shorten it, or take"
    assert [text[: len(expected)] for text in told] == ([expected] if refused else [])


def test_a_prelude_counts() -> None:
    told = findings(HEAD + STEP, prelude="# x\n" * 9000)

    length = AROUND + 36_000 + len("uptime\n")
    words = f"`run` is {length} bytes long with its prelude; SSM carries 32768."
    way_out = "Shorten it, or take files out of its prelude that it does not need."
    assert told == [f"7: Step look: {words} {way_out}"]
