"""What the author of a runbook meant, and what YAML makes of it: each mistake with the whole sentence that he reads.

How any text is read is in test_runbook_yaml.py; here a runbook is, up to the file that is not offered.
"""

from pathlib import Path

import pytest

from service.app.load_runbooks import RunbookFolder, parse_runbook
from service.app.read_runbook import examine
from service.domain.runbook import Param, ParamType, Step
from tests.unit.runbook_text import FILE, HEAD, STEP, findings, source

QUOTE = "Quote it, or write it as a block after `|`."
DURATION = "which is not a duration. Write 30s, 5m or 2h."
NODES = "Write a number of nodes such as 4, or a percentage of the pool such as 10%."


def of_step(words: str) -> str:
    return f"{HEAD}steps:\n  - {{id: a, title: A, verify: v, timeout: 1m, {words}}}\n"


class TestWordsThatYaml11TakesForBooleans:
    """on, NO, off, y stay the text that they are, and where true or false is meant they are refused."""

    def test_a_runbook_that_uses_them_as_keys_is_told_each_by_its_name(self) -> None:
        told = findings("name: cure\non:\n  alertname: GhostVRAM\nregion: NO\ndefault: off\nanswer: y\n" + STEP)

        unknown = [line.split(" is not a key")[0] for line in told if "is not a key that is known here" in line]
        assert unknown == ["2: `on`", "4: `region`", "5: `default`", "6: `answer`"]

    @pytest.mark.parametrize(
        ("words", "told"),
        [
            ("run: r, reboots: ON", "7: Step a: `reboots` is 'ON', not true or false."),
            ("run: r, read_only: yes", "7: Step a: `read_only` is 'yes', not true or false."),
            ("run: r, approval: confirm, waivable: NO", "7: Step a: `waivable` is 'NO', not true or false."),
        ],
    )
    def test_a_switch_takes_true_or_false_alone(self, words: str, told: str) -> None:
        assert findings(of_step(words)) == [f"{told} Write true or false, without quotes."]

    def test_an_approval_that_is_off_is_no_approval_that_is_known(self) -> None:
        told = findings(of_step("run: r, approval: off"))

        assert told == ["7: Step a: `approval` is 'off'. Write none, confirm or second_person."]

    @pytest.mark.parametrize("word", ["off", "Yes", "y", "'true'"])
    def test_a_parameter_that_is_a_boolean_takes_true_or_false_alone(self, word: str) -> None:
        told = findings(f"{HEAD}params:\n  x: {{type: boolean, description: a, default: {word}}}\n{STEP}")

        shown = f"'{word.strip(chr(39))}'"
        assert told == [
            f"7: Parameter x: `default` is {shown}, but the type is boolean. Write true or false, without quotes."
        ]

    def test_a_parameter_that_is_text_gets_the_text(self) -> None:
        words = "{type: string, description: a, default: off, choices: [on, off, NO]}"

        runbook = parse_runbook(source(f"{HEAD}params:\n  x: {words}\n{STEP}"), FILE)

        assert runbook.params == (Param("x", ParamType.STRING, "a", default="off", choices=("on", "off", "NO")),)


class TestNumbersThatYaml11ReadsOtherwise:
    """1:30 is no 90, and what is no number of a unit is no time."""

    @pytest.mark.parametrize(
        ("written", "shown"),
        [
            ("1:30", "'1:30'"),
            ("22:00", "'22:00'"),
            ("09:30", "'09:30'"),
            ("1e1", "'1e1'"),
            (".inf", "'.inf'"),
            (".nan", "'.nan'"),
            ("-5", "the number -5"),
            ("90", "the number 90"),
            ("1.5", "the number 1.5"),
            ("true", "true"),
        ],
    )
    def test_a_time_that_has_no_unit_is_refused_wherever_it_stands(self, written: str, shown: str) -> None:
        timeout = findings(HEAD + STEP.replace("1m", written))
        within = findings(of_step(f"within: {written}"))
        expires = findings(f"{HEAD}limits: {{approval_expires: {written}}}\n{STEP}")

        assert timeout == [f"7: Step look: `timeout` is {shown}, {DURATION}"]
        assert within == [f"7: Step a: `within` is {shown}, {DURATION}"]
        assert expires == [f"6: `approval_expires` is {shown}, {DURATION}"]

    @pytest.mark.parametrize(
        ("words", "told"),
        [
            ("{attempts: 1e1, delay: 5s}", "`attempts` is '1e1', not a whole number. Write a whole number here."),
            ("{attempts: true, delay: 5s}", "`attempts` is true, not a whole number. Write a whole number here."),
            (
                "{attempts: -1, delay: 5s}",
                "`attempts` is the number -1; it must be greater than or equal to 2. Write another value.",
            ),
            ("{attempts: 3, delay: 1:30}", f"`delay` is '1:30', {DURATION}"),
            ("{attempts: 3, delay: 5s, backoff: .inf}", "`backoff` is '.inf', not a number. Write a number here."),
        ],
    )
    def test_tries_and_pauses_are_plain_numbers_and_times(self, words: str, told: str) -> None:
        assert findings(of_step(f"retry: {words}")) == [f"7: Step a: {told}"]

    @pytest.mark.parametrize(("written", "shown"), [("1:30", "'1:30'"), (".inf", "'.inf'"), ("1e1", "'1e1'")])
    def test_a_number_of_nodes_is_a_plain_number(self, written: str, shown: str) -> None:
        told = findings(f"{HEAD}limits: {{concurrent_nodes: {written}}}\n{STEP}")

        assert told == [f"6: `concurrent_nodes` is {shown}. {NODES}"]

    @pytest.mark.parametrize("written", ["1e3", "010", "1_000"])
    def test_a_parameter_that_is_a_number_is_a_plain_one(self, written: str) -> None:
        told = findings(f"{HEAD}params:\n  x: {{type: integer, description: a, default: {written}}}\n{STEP}")

        way_out = "Write a whole number such as 7, without quotes."
        assert told == [f"7: Parameter x: `default` is '{written}', but the type is integer. {way_out}"]


class TestCommandsThatYamlCutsOrReadsAsItsOwn:
    """A comment, a colon, braces and signs of YAML in a command."""

    @pytest.mark.parametrize(
        ("command", "told"),
        [
            ("run: pkill -f worker #7", "`run` is cut at ` #`: the rest of the line is a comment. " + QUOTE),
            ("run: echo state: up", "There is a second `: ` in this line, or the indentation is off. " + QUOTE),
            ("run: {{ node }}", "A key is a mapping or a list; braces are plain text only in quotes. " + QUOTE),
            ("run: {node: x}", "`run` is a mapping, not text. Put it in quotes."),
            ("run: *.log", "`*` or `&` begins a value. " + QUOTE),
            ("run: %h", "A value begins with %, which is a sign of YAML. " + QUOTE),
            ("run: @daily", "A value begins with @, which is a sign of YAML. " + QUOTE),
            ("run: `date`", "A value begins with `, which is a sign of YAML. " + QUOTE),
        ],
    )
    def test_lint_names_the_line_and_the_way_out(self, command: str, told: str) -> None:
        text = f"{HEAD}steps:\n  - id: a\n    title: A\n    verify: v\n    timeout: 1m\n    {command}\n"

        (line,) = findings(text)

        assert line.removeprefix("11: ").removeprefix("warning: ").removeprefix("Step a: ") == told

    def test_braces_of_other_programs_are_plain_text(self) -> None:
        command = "ctr -n k8s.io t ls --format {{.ID}}"

        runbook = parse_runbook(source(of_step(f'run: "{command}"')), FILE)

        assert [step.run for step in runbook.steps] == [command]

    def test_a_command_that_was_cut_is_what_a_dry_run_shows(self) -> None:
        text = f"{HEAD}steps:\n  - id: a\n    title: A\n    verify: v\n    timeout: 1m\n    run: pkill -f worker #7\n"

        runbook = examine(source(text), FILE).runbook

        assert runbook is not None
        assert [step.run for step in runbook.steps] == ["pkill -f worker"]


class TestCarriageReturns:
    """Line ends of Windows come off where they can only be line ends; anywhere else they are refused."""

    def test_a_file_with_them_gives_scripts_without(self) -> None:
        text = (
            f"{HEAD}steps:\n  - id: a\n    title: A\n    verify: v\n    timeout: 1m\n    run: |\n      one\n      two\n"
        )

        runbook = parse_runbook(source(text.replace("\n", "\r\n")), FILE)

        assert [(type(step), step.run) for step in runbook.steps] == [(Step, "one\ntwo\n")]

    def test_one_inside_a_command_is_refused(self) -> None:
        told = findings(of_step('run: "one\\r\\ntwo"'))

        assert told == ["7: The text holds a carriage return. Take it out, or write it in the script."]


OF_FILES = {
    "empty": (b"", "1: The file is empty. Write a document, or remove the file."),
    "tab": (b"name: x\nsteps:\n\t- a\n", "3: A tab stands where YAML wants spaces. Indent with spaces."),
    "utf-16": (
        HEAD.encode("utf-16"),
        "1: The file is not UTF-8 but looks like UTF-16. Save it as UTF-8.",
    ),
    "latin-1": ("title: Für alle\n".encode("latin-1"), "1: Byte 8 is not UTF-8. Save the file as UTF-8."),
    "two": (f"{HEAD}{STEP}---\na: 1\n".encode(), "8: A second document begins here. Write one document in each file."),
    "null-key": (b"null: 1\n", "1: The key `null` is not text. Quote it."),
    "number-key": (b"1: 1\n", "1: The key `1` is not text. Quote it."),
    "twice": (b"name: x\nname: x\n", "2: The key `name` appears twice, first in line 1. Remove one."),
    "bomb": (
        b"a: &a [x,x,x]\nb: &b [*a,*a,*a]\nc: [*b,*b,*b]\n",
        f"1: `&a` is an anchor. Anchors are not accepted. {QUOTE}",
    ),
    "itself": (b"a: &a [*a]\n", f"1: `&a` is an anchor. Anchors are not accepted. {QUOTE}"),
    "merged": (b"a: 1\n<<: {b: 2}\n", "2: `<<` merges mappings. Merge keys are not accepted: write the values out."),
    "unseen": ("name: x\u202ey\n".encode(), "1: The file holds the invisible character U+202E. Take it out."),
}


def test_files_that_are_no_runbook_are_listed_with_file_line_and_way_out_beside_the_good_one(tmp_path: Path) -> None:
    (tmp_path / "cure.yaml").write_bytes(b"\xef\xbb\xbf" + (HEAD + STEP).encode())
    for name, (data, _) in OF_FILES.items():
        (tmp_path / f"{name}.yaml").write_bytes(data)

    runbooks = RunbookFolder(tmp_path)

    assert [runbook.name for runbook in runbooks.all()] == ["cure"]
    assert dict(runbooks.invalid()) == {
        str(tmp_path / f"{name}.yaml"): f"{tmp_path}/{name}.yaml:{told}" for name, (_, told) in OF_FILES.items()
    }


def test_a_space_that_does_not_break_is_seen_in_the_key_that_it_became_part_of() -> None:
    told = findings(f"{HEAD}\u00a0owner: x\n{STEP}")

    assert told == ["6: `\\xa0owner` is not a key that is known here. Do you mean `owner`?"]
