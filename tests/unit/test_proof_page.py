"""The table of proofs: what a report says, and what is kept of earlier runs."""

from tools.proof import HEAD, Row, parse_page, parse_report

REPORT = """<testsuites><testsuite>
<testcase name="test_no_script_runs_twice"><properties><property name="proof" value="late deliveries"/>
<property name="count" value="1000"/></properties></testcase>
<testcase name="test_a_mutant_is_caught[epoch]"><failure message="survived"/></testcase>
<testcase name="test_the_compose_file_starts"><skipped message="no podman"/></testcase>
<testcase time="29.0"/>
</testsuite></testsuites>"""


def test_each_test_of_a_report_is_a_row_and_one_that_was_interrupted_is_none() -> None:
    rows = parse_report(REPORT, date="2026-01-02", kernel="6.18", command="make proof")

    rest = ("2026-01-02", "6.18", "make proof")
    assert list(rows.values()) == [
        Row("late deliveries", "1000", "passed", *rest),
        Row("a mutant is caught[epoch]", "1", "failed", *rest),
        Row("the compose file starts", "1", "not run", *rest),
    ]


def test_a_row_is_read_back_as_it_was_written() -> None:
    row = Row("late deliveries", "1000", "passed", "2026-01-02", "6.18", 'make proof ONLY="-k late"')

    assert parse_page(HEAD + row.line() + "\n") == {"late deliveries": row}
