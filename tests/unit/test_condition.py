"""Conditions are compiled at load, know only given names, and say in plain words why they cannot be evaluated."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.condition import Condition, compile_condition
from service.domain.errors import InvalidInput

NAMES = frozenset({"params", "node", "trigger", "steps"})
FACTS = {
    "params": {"unmount": True, "hold_seconds": 60, "ports": [1, 2, 3], "fstype": ""},
    "node": {"scheduler": "slurm"},
    "trigger": {"kind": "alert", "labels": {"gpu": "3"}},
    "steps": {"abort-dead": {"outcome": "changed"}, "evidence": {"outcome": "ok"}},
}


def compiled(text: str) -> Condition:
    return compile_condition(text, NAMES)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("params.unmount", True),
        ("!params.unmount", False),
        ('node.scheduler == "kubernetes"', False),
        ('steps["abort-dead"].outcome == "changed"', True),
        ('steps.evidence.outcome in ["ok", "changed"]', True),
        ("has(node.gpu) && node.gpu == 'h100'", False),
        ("has(trigger.labels.gpu) && int(trigger.labels.gpu) > 2", True),
        ("params.ports.all(p, p > 0)", True),
        ("params.ports.exists(p, p == 3 && params.unmount)", True),
        ("params.ports.filter(p, p > 1).map(p, p * 2) == [4, 6]", True),
        ("params.ports.exists_one(p, params.ports.exists(q, q == p + 2))", True),
        ("size(params.fstype) == 0 ? true : params.fstype.startsWith('fuse')", True),
        ("type(params.hold_seconds) == int", True),
        ("node.scheduler.matches('^sl')", True),
    ],
)
def test_an_expression_is_true_or_false_of_its_facts(text: str, holds: bool) -> None:
    assert compiled(text).holds(FACTS) is holds


@pytest.mark.parametrize(
    ("text", "reason", "way_out"),
    [
        ("alert.x", "`alert.x` uses alert.", "The names here are node, params, steps, trigger."),
        ("params.ports.all(p, p > q)", "`params.ports.all(p, p > q)` uses q.", None),
        ("params.ports.all(p, p > 0) && p", "`params.ports.all(p, p > 0) && p` uses p.", None),
        (".alert.x", "`.alert.x` uses alert.", None),
        (
            'steps.abort-dead.outcome == "x"',
            '`steps.abort-dead.outcome == "x"` uses dead.',
            'CEL reads the hyphen as minus: write steps["abort-dead"].',
        ),
        ("now() > 1", "`now() > 1` uses the function now, which is not known.", None),
        ("params.x.lower()", "`params.x.lower()` uses the function lower, which is not known.", None),
        ("params{x: 1}", "`params{x: 1}` uses a message, which is not known.", None),
        ("node.gpu ==", "`node.gpu ==` is not a CEL expression near character 10.", None),
        ("", "`` is not a CEL expression near character 1.", None),
        ("params.x = 1", "`params.x = 1` is not a CEL expression near character 10.", None),
        ("a" * 1001, "The condition is too long.", "Let the step's check decide in shell."),
        ("(" * 31, "The condition is too long.", "Let the step's check decide in shell."),
    ],
)
def test_what_cannot_be_meant_is_refused_at_load(text: str, reason: str, way_out: str | None) -> None:
    with pytest.raises(InvalidInput) as caught:
        compiled(text)

    assert caught.value.reason == reason
    assert way_out is None or caught.value.way_out == way_out


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("node.gpu == 'x'", "The condition `node.gpu == 'x'` cannot be evaluated: there is no gpu."),
        (
            'steps["late"].outcome == "ok"',
            'The condition `steps["late"].outcome == "ok"` cannot be evaluated: a key that it asks for is not there.',
        ),
        (
            "params.hold_seconds == 'x'",
            "The condition `params.hold_seconds == 'x'` cannot be evaluated: int and string do not go together.",
        ),
        ("params.fstype", "The condition `params.fstype` gives a value of type string, not true or false."),
        ("params", "The condition `params` gives a value of type map, not true or false."),
        ("has()", "The condition `has()` cannot be evaluated: list index out of range."),
        ("1 / 0 == 1", "The condition `1 / 0 == 1` cannot be evaluated: modulus or divide by zero."),
        ("!" * 900 + "true", f"The condition `{'!' * 900}true` cannot be evaluated: it is nested too deep."),
    ],
)
def test_what_cannot_be_evaluated_says_why_in_plain_words(text: str, reason: str) -> None:
    condition = compiled(text)

    with pytest.raises(InvalidInput) as caught:
        condition.holds(FACTS)

    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("text", "references"),
    [
        ("true", set()),
        ("params.unmount", {("params", "unmount")}),
        ('steps["abort-dead"].outcome == node.x', {("steps", "abort-dead"), ("node", "x")}),
        ("steps[node.x].outcome == 'ok'", {("steps", None), ("node", "x")}),
        ("params.ports.all(p, p > trigger.limit)", {("params", "ports"), ("trigger", "limit")}),
        ("size(steps) > 1 || has(steps.a)", {("steps", None), ("steps", "a")}),
    ],
)
def test_a_condition_tells_what_it_asks_for(text: str, references: set[tuple[str, str | None]]) -> None:
    assert compiled(text).references == references


def test_conditions_are_equal_when_their_text_is() -> None:
    assert compiled("params.x") == compiled("params.x")
    assert compiled("params.x") != compiled("params.y")


def test_compiling_leaves_the_process_as_it_was() -> None:
    before = sys.getrecursionlimit()

    compiled("params.unmount")

    assert sys.getrecursionlimit() == before


PIECES = st.sampled_from(
    ["params", "node.", "x", ".", "[", "]", "(", ")", '"a"', "1", " && ", " || ", "!", "-", "+", " == ", " ? ", " : ",
     ", ", "has(", "all(", "{", "}", "'", "in", "null", "b'x'", "r'", "1.5e400", "99999999999999999999", "u"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=12).map("".join) | st.text(max_size=10))
def test_any_text_is_true_false_or_refused(text: str) -> None:
    try:
        outcome: object = compiled(text).holds(FACTS)
    except InvalidInput as error:
        outcome = error

    assert isinstance(outcome, bool | InvalidInput)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("params", FACTS["params"]),
        ("params.ports.map(p, {'port': string(p), 'even': p % 2 == 0})[1]", {"port": "2", "even": True}),
        ("1.5", 1.5),
        ("null", None),
        ("timestamp('2026-11-29T03:00:00Z')", "2026-11-29T03:00:00+00:00"),
    ],
)
def test_an_expression_gives_a_value_of_json(text: str, value: object) -> None:
    given = compiled(text).value(FACTS)

    assert given == value
    assert type(given) is type(value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("b'raw'", "The expression `b'raw'` gives bytes."),
        ("duration('1h')", "The expression `duration('1h')` gives a value of type duration."),
        ("params.nothing", "The condition `params.nothing` cannot be evaluated: there is no nothing."),
    ],
)
def test_what_json_has_no_word_for_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        compiled(text).value(FACTS)

    assert raised.value.reason == reason


def test_text_is_text_and_nothing_else() -> None:
    assert compiled("node.scheduler + '-1'").give_text(FACTS) == "slurm-1"
    with pytest.raises(InvalidInput) as raised:
        compiled("params.hold_seconds").give_text(FACTS)
    assert raised.value.reason == "The expression `params.hold_seconds` gives a value of type int, not text."
