"""What is printed cannot harm the terminal of the person who reads it."""

import pytest

from service.cli.printing import print_table
from service.domain import shown_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ü 漢 text\tand tab\n", "plain ü 漢 text\tand tab\n"),
        ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        ("\r\x08\x7f\x9b", "\\r\\x08\\x7f\\x9b"),
        ("abc\u202edcba", "abc\\u202edcba"),
    ],
)
def test_control_characters_are_shown_and_not_obeyed(text: str, shown: str) -> None:
    assert shown_text.shown(text) == shown


def test_a_piped_table_is_plain_columns_with_nothing_cut(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("run", "dry run"), [("a" * 200, True), ("b\nc", None)])

    assert capsys.readouterr().out.splitlines() == [
        f"{'RUN'.ljust(200)}  DRY RUN",
        f"{'a' * 200}  yes",
        f"{'b c'.ljust(200)}  -",
    ]
