"""What the values of a runbook must say together, and what its scripts must not do."""

import pytest

from service.app.finding import Severity
from service.app.read_runbook import examine
from tests.unit.runbook_text import FILE, HEAD, STEP, beginnings, findings, script_of, source

ACT = "{id: act, title: Act, check: c, run: r, verify: v, timeout: 1m}"


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (["{id: a, title: A, timeout: 1m}"], ["7: Step a: The step has neither run nor verify."]),
        (["{id: a, title: A, run: r, verify: v}"], ["7: Step a: `timeout` is missing. Add it."]),
        (["{id: a, title: A, run: r, timeout: 1m}"], ["7: Step a: `run` acts, and no `verify` proves that it helped."]),
        (["{id: a, title: A, check: c, verify: v, timeout: 1m}"], ["7: Step a: `check` has no `run` to look for."]),
        (
            ["{id: a, title: A, run: r, read_only: true, check: c, approval: confirm, timeout: 1m}"],
            ["7: Step a: `approval` is for a step", "7: Step a: `check` is not asked for"],
        ),
        (["{id: a, title: A, verify: v, read_only: true, timeout: 1m}"], ["7: Step a: `read_only` says something"]),
        (["{id: a, title: A, verify: v, approval: confirm, timeout: 1m}"], ["7: Step a: `approval` is for a step"]),
        (
            ["{id: a, title: A, run: r, verify: v, approval: confirm, timeout: 1m}"],
            ["7: Step a: `approval` has nothing to show: a gate opens on what `check` saw, and an approval binds it."],
        ),
        (
            ["{id: a, title: A, run: r, verify: v, waivable: false, timeout: 1m}"],
            ["7: Step a: `waivable` says something of a gate, and there is none."],
        ),
        (
            ["{id: a, title: A, run: r, verify: v, needs_reason: true, timeout: 1m}"],
            ["7: Step a: `needs_reason` is for who answers a gate; there is none."],
        ),
        (["{id: a, title: A, run: r, read_only: true, within: 5s, timeout: 1m}"], ["7: Step a: `within` is how long"]),
        (["{id: a, title: A, verify: v, reboots: true, timeout: 1m}"], ["7: Step a: `reboots` is for a step"]),
        ([ACT, ACT], ["8: Step act: `id` is the id of an earlier step."]),
        (["{id: a, title: A, run: r, verify: v, timeout: 1m, approval: second}"], ["7: Step a: `approval` is"]),
        (["{id: a, title: A, run: '', verify: v, timeout: 1m}"], ["7: Step a: `run` is ''. Write some"]),
        (
            ["{id: a, title: A, verify: v, timeout: 1m, retry: {attempts: 1, delay: 5s}}"],
            ["7: Step a: `attempts` is the number 1; it must be greater than or equal to 2."],
        ),
        (["{id: a, title: A, verify: v, timeout: 1m, read_only: 'true'}"], ["7: Step a: `read_only` is 'true', not"]),
        (["{id: a, title: A, verify: v, timeout: 1m, waivable: NO}"], ["7: Step a: `waivable` is 'NO', not"]),
    ],
)  # fmt: skip
def test_the_keys_of_a_step_must_go_together(steps: list[str], expected: list[str]) -> None:
    told = findings(HEAD + "steps:\n" + "".join(f"  - {step}\n" for step in steps))

    assert beginnings(told, expected) == expected


GATED = "{id: act, title: Act, check: CHECK, run: r, verify: v, timeout: 1m, approval: confirm}"
UNNAMED = "7: warning: Step act: `check` names no targets, so an approval is for nothing in particular."


@pytest.mark.parametrize(
    ("prelude", "check", "expected"),
    [
        ("", "exit 0", [UNNAMED]),
        ("", "'echo x >\"$UNSTICK_TARGETS\"'", []),
        ('propose() { tee "$UNSTICK_TARGETS"; }\n', "echo x | propose", []),
    ],
    ids=["nowhere", "in the check", "in what stands before it"],
)
def test_a_gate_whose_check_names_no_targets_is_warned_of(prelude: str, check: str, expected: list[str]) -> None:
    told = findings(f"{HEAD}steps:\n  - {GATED.replace('CHECK', check)}\n", prelude=prelude)

    assert beginnings(told, expected) == expected


def test_a_check_without_a_gate_may_name_no_targets() -> None:
    assert findings(f"{HEAD}steps:\n  - {ACT}\n") == []


UNDO = "{id: undo, title: Undo, always: true, undoes: act, run: r, verify: v, timeout: 1m}"


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([ACT, UNDO.replace("undoes: act, ", "")], "8: Step undo: `always` names no step that it undoes. Add `undoes`"),
        ([UNDO, ACT], "7: Step undo: `undoes` names act, which is no earlier step."),
        ([ACT, UNDO.replace("undoes: act", "undoes: undo")], "8: Step undo: `undoes` names undo, which is no"),
        (
            ["{id: act, title: A, run: r, read_only: true, timeout: 1m}", UNDO],
            "8: Step undo: `undoes` names act, which changes nothing. Name a step that acts.",
        ),
        ([ACT, UNDO.replace("run: r", "check: c, run: r")], "8: Step undo: `check` is not asked by"),
        ([ACT, UNDO.replace("run: r", "approval: confirm, run: r")], "8: Step undo: `approval` cannot hold"),
        ([ACT, UNDO.replace("run: r, ", "")], "8: Step undo: `always` is for a step that acts. Add run and verify"),
        ([ACT, UNDO.replace("always: true, ", "")], "8: Step undo: `undoes` is for a step with"),
        (
            [ACT.replace("check: c, ", ""), UNDO],
            "8: warning: Step undo: `undoes` names act, which has no check and so records nothing to restore.",
        ),
    ],
)  # fmt: skip
def test_an_always_step_undoes_an_earlier_act(steps: list[str], expected: str) -> None:
    told = findings(HEAD + "steps:\n" + "".join(f"  - {step}\n" for step in steps))

    assert beginnings(told, [expected]) == [expected]


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ("params.unmount", "`when` asks for the parameter unmount, which is not declared. Declare it under params."),
        ('steps["later"].outcome == "ok"', "`when` asks for the step later, which is no earlier step."),
        ('steps["late"].outcome == "ok"', "`when` asks for the step late, which is no earlier step."),
        ('size(steps) > 1', "`when` asks for steps without naming one."),
        ('steps.one-two.outcome == "ok"', 'uses two. CEL reads the hyphen as minus: write steps["one-two"].'),
        ("alert.labels.x", "uses alert. The names here are node, params, steps, trigger."),
        ("node.gpu ==", "is not a CEL expression near character 10."),
        ("on", "uses on. The names here are node, params, steps, trigger."),
    ],
)  # fmt: skip
def test_a_condition_is_compiled_and_its_names_are_known_at_load(when: str, expected: str) -> None:
    steps = f"steps:\n  - {ACT}\n  - {{id: late, title: L, verify: v, timeout: 1m, when: '{when}'}}\n  - {ACT}\n"

    told = findings(HEAD + steps.replace("id: act, title: Act, check: c", "id: first, title: F, check: c", 1))

    assert len(told) == 1
    assert told[0].startswith("8: Step late: ")
    assert expected in told[0]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('echo\necho "$PARAM_X"', ["13: Step a: `run` uses PARAM_X, which is not declared. Declare it under params."]),
        ('echo "${NODE_GPU:-}"', ["12: Step a: `run` uses NODE_GPU, which is not declared. Name the attribute under"]),
        ("cat $UNSTICK_TARGET", ["12: Step a: `run` uses UNSTICK_TARGET, which is not declared. The envelope gives"]),
        ('echo "$NODE_NAME" "$UNSTICK_TARGETS" "$UNSTICK_BOOT_ID" "$MY_PARAM_X"', []),
    ],
)
def test_a_script_may_only_use_values_that_somebody_gives(body: str, expected: list[str]) -> None:
    told = findings(script_of(body))

    assert [
        line.removeprefix("runbooks/cure.yaml:")[: len(want)] for line, want in zip(told, expected, strict=True)
    ] == (expected)


def test_a_prelude_may_only_use_values_that_somebody_gives() -> None:
    told = findings(f"{HEAD}prelude: [lib/a.sh]\n{STEP}", prelude='echo "$PARAM_X"\n')

    assert told == ["6: `prelude` uses PARAM_X, which is not declared. Declare it under params."]


GLOB = "11: Step a: `run` aborts FUSE connections by a glob, healthy ones too."


@pytest.mark.parametrize(
    "body",
    [
        "for c in /sys/fs/fuse/connections/*/abort; do echo 1 >$c; done",
        'for c in /sys/fs/fuse/connections/*; do\n  echo 1 >"$c/abort"\ndone',
        "echo 1 | tee /sys/fs/fuse/connections/*/abort",
        'cd /\ncontrol=/sys/fs/fuse/connections\nfor c in "$control"/*; do echo 1 >"$c"/abort; done',
        "c=/sys/fs/fuse/connections\necho 1 | tee ${c}/[0-9]*/abort",
        "find /sys/fs/fuse/connections -name abort -exec sh -c 'echo 1 >{}' \\;",
    ],
)
def test_a_script_that_aborts_every_connection_is_refused(body: str) -> None:
    told = findings(script_of(body))

    assert beginnings(told, [GLOB]) == [GLOB]


def test_a_script_that_only_looks_at_every_connection_or_tells_of_abort_is_accepted() -> None:
    body = "# never: echo 1 >/sys/fs/fuse/connections/*/abort\ncat /sys/fs/fuse/connections/*/waiting"

    assert findings(script_of(body)) == []


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("run: pkill -f worker #7", "`run` is cut at ` #`: the rest of the line is a comment."),
        ("run: >\n      a\n      b", "`run` is written over several lines that YAML joins into one."),
        ("run: a\n      b", "`run` is written over several lines that YAML joins into one."),
    ],
)
def test_a_script_that_yaml_changes_is_used_but_warned_about(written: str, reason: str) -> None:
    step = f"  - id: a\n    title: A\n    timeout: 1m  # a comment here is no matter\n    verify: v\n    {written}\n"
    text = f"{HEAD}steps:\n{step}"

    examined = examine(source(text), FILE)

    assert [(f.line, f.reason, f.severity) for f in examined.findings] == [(11, f"Step a: {reason}", Severity.WARNING)]
    assert examined.runbook is not None


PARTS = "# runbooks/lib/a.sh: one\na() { :; }\n# runbooks/lib/b.sh: two\nb() { :; }\n"


def test_a_step_may_be_given_some_files_of_the_prelude_and_no_others() -> None:
    step = "steps:\n  - {id: look, title: Look, read_only: true, run: uptime, timeout: 1m, prelude: [lib/b.sh]}\n"
    made = examine(source(f"{HEAD}prelude: [lib/a.sh, lib/b.sh]\n{step}", prelude=PARTS), FILE).runbook
    foreign = findings(f"{HEAD}prelude: [lib/a.sh]\n{step}", prelude=PARTS.split("# runbooks/lib/b")[0])

    assert made is not None
    assert made.prelude_of(made.steps[0]) == "# runbooks/lib/b.sh: two\nb() { :; }\n"
    told = "8: Step look: `prelude` names lib/b.sh, which is no file of the runbook's prelude. Name it there; the file"
    assert foreign == [f"{told} begins with `# runbooks/lib/b.sh:`."]
