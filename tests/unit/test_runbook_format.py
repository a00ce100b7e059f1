"""The format of a runbook: what becomes of a good one, and each refusal with its line and way out."""

from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.app.load_runbooks import load_file, parse_runbook
from service.app.ports import RunbookSource
from service.domain.condition import compile_condition
from service.domain.errors import RunbookInvalid
from service.domain.runbook import (
    CONDITION_NAMES,
    ApprovalKind,
    Count,
    Escalation,
    Limits,
    OnFailure,
    Param,
    ParamType,
    Retry,
    Runbook,
    Step,
    Where,
)
from service.domain.script import sha256
from tests.unit.runbook_text import FILE, HEAD, STEP, WHOLE, beginnings, findings, script_of, source


def test_a_whole_runbook_becomes_the_value_that_it_says() -> None:
    prelude = "shopt -s inherit_errexit\n"

    runbook = parse_runbook(RunbookSource("cure", WHOLE, prelude, "abc"), FILE)

    assert runbook == Runbook(
        name="cure",
        title="A cure",
        owner="gpu-oncall",
        description="What is wrong.\n",
        prevention="Do not.",
        known_not_to_cure=("waiting",),
        needs=("gpu_uuid",),
        params=(
            Param("mode", ParamType.STRING, "How.", default="soft", choices=("soft", "hard")),
            Param("seconds", ParamType.INTEGER, "How long.", min=1, max=60),
        ),
        limits=Limits(Count(10, percent=True), 1, 2, timedelta(minutes=30), timedelta(hours=2)),
        escalate_to=(
            Escalation("reboot-slurm", compile_condition('node.scheduler == "slurm"', CONDITION_NAMES)),
            Escalation("reboot"),
        ),
        prelude=prelude,
        revision="abc",
        file_sha256=sha256(WHOLE),
        steps=(
            Step("look", "Look", timedelta(minutes=1), run="uptime", read_only=True),
            Step(
                "save",
                "Save",
                timedelta(minutes=5),
                check='echo state >"$UNSTICK_TARGETS"',
                run='change "$PARAM_MODE" "$NODE_GPU_UUID"',
                verify="test",
                reboots=True,
                approval=ApprovalKind.SECOND_PERSON,
                waivable=False,
                within=timedelta(minutes=45),
                retry=Retry(3, timedelta(seconds=10), 2.0),
                on_failure=OnFailure.CONTINUE,
            ),
            Step(
                "restore",
                "Restore",
                timedelta(seconds=90),
                run="restore",
                verify="test",
                where=Where.CONTROLLER,
                when=compile_condition('steps["save"].outcome == "changed" && params.seconds > 5', CONDITION_NAMES),
                always=True,
                undoes="save",
            ),
        ),
    )


def test_a_runbook_that_says_little_gets_the_safe_defaults() -> None:
    runbook = parse_runbook(source(HEAD + STEP), "cure.yaml")

    assert (runbook.limits, runbook.steps) == (
        Limits(),
        (Step("look", "Look", timedelta(minutes=1), run="uptime", read_only=True),),
    )
    assert Limits() == Limits(None, 0, 1, timedelta(0), timedelta(hours=1))


def test_escalation_may_be_a_single_name() -> None:
    runbook = parse_runbook(source(f"{HEAD}escalate_to: reboot\n{STEP}"), "cure.yaml")

    assert runbook.escalate_to == (Escalation("reboot"),)


def test_the_digest_of_the_file_is_that_of_its_bytes() -> None:
    data = b"\xef\xbb\xbf" + (HEAD + STEP).replace("\n", "\r\n").encode()

    runbook = parse_runbook(source(data.decode()), "cure.yaml")

    assert runbook.file_sha256 == sha256(data)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("just words\n", "1: The file is not a mapping of keys to values. Begin with `schema: 1`."),
        (HEAD.replace("schema: 1", "schema: 2") + STEP, "1: `schema` is the number 2; it must be less than"),
        (HEAD.replace("schema: 1", "schema: true") + STEP, "1: `schema` is true, not a whole number."),
        (HEAD.replace("name: cure", "name: other") + STEP, "2: `name` is other, but the file is cure.yaml. Give both"),
        (HEAD.replace("name: cure", "name: Cure_1") + STEP, "2: `name` is 'Cure_1'. Write lower-case letters"),
        (HEAD.replace("A cure", "1.10") + STEP, "3: `title` is the number 1.1, not text. Put it in quotes."),
        (HEAD.replace("A cure", '"a\\nb"') + STEP, "3: `title` is 'a\\nb'. Write one line of text."),
        (HEAD.replace("A cure", "") + STEP, "3: `title` is empty. Give it a value, or remove the key."),
        (HEAD + "on: {x: 1}\n" + STEP, "6: `on` is not a key that is known here. The keys here are schema, name,"),
        (HEAD + "prevent: x\n" + STEP, "6: `prevent` is not a key that is known here. Do you mean `prevention`?"),
        (HEAD + "\u00a0owner: x\n" + STEP, "6: `\\xa0owner` is not a key that is known here. Do you mean `owner`?"),
        (HEAD, "1: `steps` is missing. Add it."),
        (HEAD + "steps: []\n", "6: `steps` is a list; list should have at least 1 item"),
        (HEAD + "steps: {}\n", "6: `steps` is a mapping, not a list. Write a list here."),
        (HEAD + "steps: [look]\n", "6: Step 1: `steps` is 'look', not a mapping. Write a mapping here."),
        (HEAD + "needs: [Gpu]\n" + STEP, "6: `needs` is 'Gpu'. Write lower-case letters, digits and underscores"),
        (HEAD + "needs: [name]\n" + STEP, "6: NODE_NAME is the node's own name. Call the attribute something else."),
        (HEAD + "needs: [a, a]\n" + STEP, "6: `needs` names a twice. Remove one."),
        (HEAD + "limits: {concurrent_nodes: 0}\n" + STEP, "6: `concurrent_nodes` is the number 0. Write a number"),
        (HEAD + "limits: {concurrent_nodes: 0%}\n" + STEP, "6: `concurrent_nodes` is '0%'. Write a number"),
        (HEAD + "limits: {max_failures: 0}\n" + STEP, "6: `max_failures` is the number 0; it must be greater than or"),
        (HEAD + "limits: {canari: 1}\n" + STEP, "6: `canari` is not a key that is known here. Do you mean `canary`?"),
        (HEAD + "escalate_to: [{runbook: x, if: y}]\n" + STEP, "6: `if` is not a key that is known here. The keys"),
        (HEAD + "prelude: [../x.sh]\n" + STEP, "6: `prelude` names '../x.sh'. Name files such as lib/fuse.sh"),
        (HEAD + "prelude: [lib/../x.sh]\n" + STEP, "6: `prelude` names 'lib/../x.sh'. Name files such as lib/fuse.sh"),
        (HEAD + "prelude: 5\n" + STEP, "6: `prelude` is the number 5. Write shell after `|`, or a list of files"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_with_its_line_and_the_way_out(text: str, expected: str) -> None:
    told = findings(text)

    assert expected in beginnings(told, [expected] * len(told))


@pytest.mark.parametrize(
    "value", ["1:30", "-5", "true", ".inf", "90", "1.5", "1e1", "5 m", "5d", "0s", "5M", "999999h", "[5m]", "'5m '"]
)
def test_a_timeout_is_a_number_and_one_of_three_units(value: str) -> None:
    text = HEAD + STEP.replace("1m", value)

    told = findings(text)

    assert len(told) == 1
    assert told[0].startswith("7: Step look: `timeout` is ")
    assert told[0].endswith(("Write 30s, 5m or 2h.", "Write a shorter duration."))


@pytest.mark.parametrize(
    ("param", "expected"),
    [
        ("{type: float, description: a}", "`type` is 'float'. Write string, integer or boolean."),
        ("{type: string}", "`description` is missing. Add it."),
        ("{type: integer, description: a, default: '5'}", "`default` is '5', but the type is integer. Write a"),
        ("{type: string, description: a, default: 5}", "`default` is the number 5, but the type is string. Put it in"),
        ("{type: boolean, description: a, default: 1}", "`default` is the number 1, but the type is boolean. Write"),
        ("{type: string, description: a, default: 1.5}", "`default` is the number 1.5. Write text (in quotes)"),
        ("{type: string, description: a, default: }", "`default` is empty. Give it a value, or remove the key."),
        ("{type: string, description: a, default: b, pattern: '[0-9]+'}", "`default` does not fit: x is 'b'. It must"),
        ("{type: integer, description: a, default: 9, max: 5}", "`default` does not fit: x is 9. It may be at most 5."),
        ("{type: integer, description: a, choices: [1, a]}", "`choices` is 'a', but the type is integer."),
        ("{type: string, description: a, default: c, choices: [a, b]}", "`default` does not fit: x is 'c'. It may be"),
        ("{type: integer, description: a, pattern: x}", "`pattern` does not bind integer. It is for a parameter of"),
        ("{type: string, description: a, min: 1}", "`min` does not bind string. It is for a parameter of type"),
        ("{type: integer, description: a, min: 5, max: 1}", "`min` is greater than `max`. Exchange them."),
        ("{type: string, description: a, pattern: '('}", "`pattern` is not what RE2 reads: missing ): (. W"),
        ("{type: string, description: a, pattern: '(?=a)a'}", "`pattern` is not what RE2 reads: invalid perl"),
        ("{type: string, description: a, pattern: '(a)\\1'}", "`pattern` is not what RE2 reads: invalid escape"),
        ("{type: string, description: a, pattern: 'a{1001}'}", "`pattern` is not what RE2 reads: invalid repet"),
        ("{type: string, description: a, secret: true}", "`secret` is not a key that is known here."),
    ],
)  # fmt: skip
def test_a_parameter_is_typed_and_its_bounds_and_default_fit(param: str, expected: str) -> None:
    told = findings(f"{HEAD}params:\n  x: {param}\n{STEP}")

    whole = f"7: Parameter x: {expected}"
    assert beginnings(told, [whole]) == [whole]


def test_the_name_of_a_parameter_makes_an_environment_variable() -> None:
    told = findings(f"{HEAD}params:\n  Bad-Name: {{type: string, description: a}}\n{STEP}")

    way_out = "Write lower-case letters, digits and underscores, a letter first."
    assert told == [f"7: `Bad-Name` is 'Bad-Name'. {way_out}"]


def test_what_is_sent_is_what_stands_in_the_block() -> None:
    body = "ctr t ls --format {{.ID}} #7\necho \"a: b\" | tr '\\n' ' '\n\tcat <<-EOF\n\t%x *y @z\n\tEOF"

    runbook = parse_runbook(source(script_of(body)), "cure.yaml")

    assert runbook.steps[0].run == f"{body}\n"


def test_the_first_error_is_told_and_how_many_there_are() -> None:
    text = (HEAD + STEP).replace("title: A cure\n", "").replace("1m", "soon")

    with pytest.raises(RunbookInvalid) as caught:
        parse_runbook(source(text), FILE)

    assert (caught.value.reason, caught.value.way_out) == (
        "runbooks/cure.yaml:1: `title` is missing.",
        "Add it. (1 more: run `unstick lint`.)",
    )


PIECES = st.sampled_from(
    [*WHOLE.splitlines(keepends=True), *"{}[]:|>&*!%#'\"\\\n -", "true", "1", "~", "params", "x: "]
)


@given(st.lists(PIECES | st.text(max_size=4), max_size=60).map("".join))
def test_any_text_becomes_a_runbook_or_is_refused_as_one(text: str) -> None:
    try:
        made: object = parse_runbook(source(text), "cure.yaml")
    except RunbookInvalid as error:
        made = error

    assert isinstance(made, Runbook | RunbookInvalid)


@given(st.data())
def test_a_runbook_with_some_lines_changed_becomes_one_or_is_refused(data: st.DataObject) -> None:
    lines = WHOLE.splitlines()
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(lines) - 1))
        cut = data.draw(st.integers(0, len(lines[place])))
        lines[place] = lines[place][:cut] + data.draw(
            st.text(max_size=3) | st.sampled_from(["[", "{", "null", "- ", ": "])
        )
    try:
        made: object = parse_runbook(source("\n".join(lines)), "cure.yaml")
    except RunbookInvalid as error:
        made = error

    assert isinstance(made, Runbook | RunbookInvalid)


@pytest.mark.parametrize("path", sorted(Path("runbooks").glob("*.yaml")), ids=lambda path: path.stem)
def test_no_shipped_runbook_has_a_finding_of_the_format(path: Path) -> None:
    assert load_file(path).examined.findings == ()
