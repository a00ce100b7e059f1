"""The audit and timelines over HTTP."""

import csv
import io
import itertools
from datetime import UTC, datetime

import pytest

from service.app.timeline import Entry, as_csv, as_markdown, escaped
from service.domain.person import Role
from tests.support.world import World
from tests.web.api import Api, problem


@pytest.fixture
def run_id(api: Api, world: World) -> str:
    """Give a run that was cured, with one approval."""
    run_id = api.request("gpu-01", reason="=cmd|' /C calc'!A0")
    world.settle()
    [gate] = api.get("/approvals").json()["items"]
    api.post(f"/approvals/{gate['id']}/approve", {"digest": gate["digest"], "reason": "<b>seen</b> | ok"})
    world.settle()
    return run_id


def test_events_are_listed_newest_first_with_their_hashes_and_page(api: Api, run_id: str) -> None:
    first = api.get("/audit", limit=3).json()
    second = api.get("/audit", limit=3, cursor=first["next_cursor"]).json()

    events = first["items"] + second["items"]
    assert [event["seq"] for event in events] == list(range(events[0]["seq"], events[0]["seq"] - 6, -1))
    assert all(newer["previous_hash"] == older["hash"] for newer, older in itertools.pairwise(events))


def test_events_are_narrowed_by_what_was_done(api: Api, run_id: str) -> None:
    [event] = api.get("/audit", action="gate.approved").json()["items"]

    assert (event["person"], event["run_id"], event["node"], event["step"]) == (
        "operator",
        run_id,
        "gpu-01",
        "abort-dead",
    )
    assert event["body"]["reason"] == "<b>seen</b> | ok"


@pytest.mark.parametrize("moment", ["2026-11-29T03:00:00", "0.5", "1764385200", "yesterday"])
def test_a_moment_without_an_offset_or_a_date_is_refused(api: Api, moment: str) -> None:
    assert problem(api.get("/audit", since=moment))[:2] == (422, "invalid_input")


@pytest.mark.parametrize("moment", ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"])
def test_a_moment_that_is_beyond_all_years_in_utc_is_refused(api: Api, moment: str) -> None:
    answers = [api.get("/audit", since=moment), api.get("/audit/timeline", node="gpu-01", since=moment)]

    for status, code, detail in map(problem, answers):
        assert (status, code) == (422, "invalid_input")
        assert "In UTC it lies before the year 1 or after the year 9999." in detail


def test_a_run_s_timeline_tells_it_in_order(api: Api, run_id: str) -> None:
    items = api.get("/audit/timeline", run_id=run_id).json()["items"]

    told = [(one["step"], one["text"]) for one in items]
    assert told[0] == ("", "Requested abort-stuck-fuse on gpu-01: =cmd|' /C calc'!A0")
    assert ("abort-dead", "Gate approved: <b>seen</b> | ok") in told
    assert ("abort-dead", "Gate opened (confirm) on 1 target.") in told
    assert ("abort-dead", "Run: exit 0.") in told
    assert told[-1] == ("", "Ended succeeded.")
    assert [one["seq"] for one in items] == sorted(one["seq"] for one in items)


def test_a_run_s_timeline_pages(api: Api, run_id: str) -> None:
    whole = api.get("/audit/timeline", run_id=run_id).json()["items"]

    first = api.get("/audit/timeline", run_id=run_id, limit=4).json()
    rest = api.get("/audit/timeline", run_id=run_id, cursor=first["next_cursor"]).json()

    assert first["items"] + rest["items"] == whole
    assert rest["next_cursor"] is None


def test_a_node_s_timeline_has_all_of_its_runs_and_holds(api: Api, run_id: str) -> None:
    api.post("/nodes/gpu-01/hold", {"reason": "the vendor looks at it"})
    api.request("gpu-02")

    items = api.get("/audit/timeline", node="gpu-01").json()["items"]

    assert {one["node"] for one in items} == {"", "gpu-01"}
    assert {one["run"] for one in items} == {"", run_id}
    assert items[-1]["text"] == "Node held: the vendor looks at it"
    assert [one["seq"] for one in items] == sorted(one["seq"] for one in items)


@pytest.mark.parametrize("written", ["md", "csv"])
def test_a_node_s_timeline_says_who_asked_and_why(api: Api, written: str) -> None:
    api.request(nodes=["gpu-01", "gpu-02"], reason="the reader hangs", dry_run=True)

    text = api.get("/audit/timeline", node="gpu-02", format=written).text

    assert "Requested a dry run of abort-stuck-fuse on gpu-01, gpu-02: the reader hangs" in text
    assert "operator" in text


def test_a_node_s_timeline_of_a_later_time_still_says_who_asked(api: Api, run_id: str) -> None:
    whole = api.get("/audit/timeline", node="gpu-01").json()["items"]

    late = api.get("/audit/timeline", node="gpu-01", since=whole[-1]["at"]).json()["items"]

    assert late == [whole[0], whole[-1]]
    assert (late[0]["action"], late[0]["person"]) == ("run.requested", "operator")


def test_a_node_s_timeline_says_who_cancelled_the_run(api: Api) -> None:
    run_id = api.request(nodes=["gpu-01", "gpu-02"])
    api.post(f"/runs/{run_id}/cancel", {"reason": "the wrong rack"})

    items = api.get("/audit/timeline", node="gpu-01").json()["items"]

    assert [(one["action"], one["person"]) for one in items][:2] == [
        ("run.requested", "operator"),
        ("run.cancel_requested", "operator"),
    ]


@pytest.mark.parametrize("written", ["json", "md", "csv"])
def test_the_timeline_of_a_mistyped_node_says_that_nothing_is_recorded(api: Api, written: str) -> None:
    answer = api.find("/audit/timeline", {"node": "gup-01", "format": written})

    said = "Nothing is recorded of a node gup-01, and the inventory does not know it either."
    assert problem(answer) == (404, "not_found", said)


def test_the_timeline_of_a_node_that_nothing_happened_to_says_so(api: Api) -> None:
    answer = api.find("/audit/timeline", {"node": "gpu-01", "format": "md"})

    assert answer.status_code == 200
    assert answer.text.endswith("\nNothing is recorded of it in this time.\n")


def test_a_timeline_as_csv_disarms_what_a_spreadsheet_would_run(api: Api, run_id: str) -> None:
    answer = api.get("/audit/timeline", run_id=run_id, format="csv")

    rows = list(csv.reader(io.StringIO(answer.text)))
    assert rows[0] == ["at", "seq", "person", "on_behalf_of", "action", "run", "node", "step", "text"]
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == f'attachment; filename="run-{run_id}.csv"'
    assert not [cell for row in rows for cell in row if cell[:1] in {"=", "+", "-", "@"}]


@pytest.mark.parametrize("beginning", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_a_cell_that_begins_as_a_formula_is_made_text(beginning: str) -> None:
    entry = Entry(datetime(2026, 11, 29, tzinfo=UTC), 1, f"{beginning}1+1", "", "a", "", "", "", f"{beginning}x")

    rows = list(csv.reader(io.StringIO("".join(as_csv([entry])), newline="")))

    assert (rows[1][2], rows[1][8]) == (f"'{beginning}1+1", f"'{beginning}x")


def test_a_timeline_as_markdown_shows_signs_as_they_are(api: Api, run_id: str) -> None:
    answer = api.get("/audit/timeline", run_id=run_id, format="md")

    [line] = [line for line in answer.text.splitlines() if "Gate approved" in line]
    assert answer.headers["content-type"] == "text/markdown; charset=utf-8"
    assert r"Gate approved: \<b\>seen\</b\> \| ok" in line
    assert line.count(" | ") == 4


def test_a_line_feed_or_a_bidirectional_sign_does_not_leave_its_cell() -> None:
    entry = Entry(datetime(2026, 11, 29, tzinfo=UTC), 1, "p", "q", "a", "", "n", "s", "one\ntwo \u202e three")

    text = "".join(as_markdown([entry], title="Run 1"))

    assert text.splitlines()[-1] == "| 2026-11-29 00:00:00.000 | p for q | one two \ufffd three | n | s |"
    assert escaped("a`b*c") == r"a\`b\*c"


@pytest.mark.parametrize("query", [{}, {"run_id": "a", "node": "gpu-01"}, {"run_id": "a", "format": "pdf"}])
def test_a_timeline_of_nothing_or_of_two_things_is_refused(api: Api, query: dict[str, str]) -> None:
    assert problem(api.find("/audit/timeline", query))[:2] == (422, "invalid_input")


@pytest.mark.parametrize("written", ["json", "md", "csv"])
def test_the_timeline_of_a_run_that_is_not_there_is_not_found(api: Api, written: str) -> None:
    answer = api.find("/audit/timeline", {"run_id": "none", "format": written})

    assert problem(answer)[:2] == (404, "not_found")


def test_output_of_an_attempt_that_is_not_there_is_not_found(api: Api) -> None:
    assert problem(api.get("/attempts/none/output", role=Role.ADMIN))[:2] == (404, "not_found")
