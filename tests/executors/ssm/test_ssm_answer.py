"""What is read of the standard output that SSM keeps, whole or cut anywhere."""

import base64
import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.script import AttemptRef, OutputChunk, Report, ReportState, Stream
from service.executors.ssm.answer import Answer
from service.executors.ssm.command import Landing
from service.executors.ssm.statuses import judge
from tests.executors.ssm.support import endpoint

ATTEMPT = AttemptRef("a1", endpoint(), None)
SUFFIX = "--output truncated--"


def frame(kind: str, **fields: object) -> str:
    return f"unstick a1 {json.dumps({'frame': kind, **fields}, separators=(',', ':'))}\n"


def piece(kind: str, offset: int, data: bytes, *, zipped: bool = True) -> str:
    packed = base64.b64encode(gzip.compress(data) if zipped else data).decode()
    return frame(kind, stream="stdout", offset=offset, **{"gzip" if zipped else "data": packed})


def state(name: str = "finished", **fields: object) -> str:
    return frame("state", state=name, boot_id="b1", exit_code=0, **fields)


def landing(output: str, status: str = "Success", details: str = "") -> Landing:
    return Landing(judge(status, details or status, never_begun=True), output)


def take(output: str, status: str = "Success", details: str = "") -> tuple[Report, list[OutputChunk], Answer]:
    chunks: list[OutputChunk] = []
    answer = Answer(ATTEMPT, chunks.append)
    report = answer.take(landing(output, status, details), started=True)
    return report, chunks, answer


def test_pieces_arrive_as_the_bytes_they_were() -> None:
    said = "\n" + state(stdout_bytes=9) + piece("out", 0, b"a\n\xe2\x82\xac\0") + piece("out", 6, b"xyz", zipped=False)

    report, chunks, answer = take(said)

    assert (report.exit_code, answer.complete) == (0, True)
    assert b"".join(chunk.data for chunk in chunks) == b"a\n\xe2\x82\xac\0xyz"


WHOLE = "\n" + state(stdout_bytes=4000) + piece("out", 0, b"1" * 2000, zipped=False) + piece("out", 2000, b"2" * 2000)


@given(st.integers(0, len(WHOLE)), st.sampled_from(["", SUFFIX, "\n---Output truncated---"]))
def test_an_answer_that_was_cut_anywhere_is_never_read_as_more_than_it_is(length: int, suffix: str) -> None:
    report, chunks, answer = take(WHOLE[:length] + suffix)

    held = b"".join(chunk.data for chunk in chunks)
    assert held in (b"", b"1" * 2000, b"1" * 2000 + b"2" * 2000)
    assert answer.complete is (len(held) == 4000)
    if report.state is ReportState.LOST:
        assert length <= len("\n" + state(stdout_bytes=4000))
    else:
        assert report.exit_code == 0


@pytest.mark.parametrize("data", ["", "not base64!", base64.b64encode(b"no gzip").decode()])
def test_a_piece_that_is_not_quite_one_is_noise(data: str) -> None:
    broken = frame("out", stream="stdout", offset=0, gzip=data)

    _, chunks, answer = take(state(stdout_bytes=3) + broken)

    assert (chunks, answer.complete) == ([], False)


def test_a_piece_that_unpacks_to_more_than_a_segment_is_noise() -> None:
    _, chunks, _ = take(state(stdout_bytes=70_000) + piece("out", 0, bytes(70_000)))

    assert chunks == []


@pytest.mark.parametrize(
    ("status", "details", "words"),
    [
        ("Success", "Success", "the agent says Success, but nothing of ours came back"),
        ("Failed", "Failed", "the agent says Failed, and nothing of ours came back"),
        ("TimedOut", "ExecutionTimedOut", "the agent ended the command at its timeout"),
        ("Cancelled", "Cancelled", "the command was cancelled"),
        ("Success", "NewWord", "SSM says Success/NewWord, which unstick does not know"),
    ],
)
def test_an_end_without_our_frames_is_unknown(status: str, details: str, words: str) -> None:
    report, _, _ = take("sh: 1: something else\n", status, details)

    assert report.state is ReportState.LOST
    assert f"{words} (last heard: 'sh: 1: something else')" in report.reason


@pytest.mark.parametrize("status", ["Failed", "TimedOut", "Cancelled"])
def test_our_frames_count_whatever_ssm_says(status: str) -> None:
    report, _, _ = take(state(), status)

    assert (report.state, report.exit_code) == (ReportState.FINISHED, 0)


def test_only_a_start_that_never_arrived_is_proof() -> None:
    answer = Answer(ATTEMPT, lambda _: None)
    undelivered = landing("", "Failed", "Undeliverable")

    reports = [answer.take(undelivered, started=started) for started in (True, False)]

    assert [report.state for report in reports] == [ReportState.NOT_STARTED, ReportState.LOST]


def test_targets_that_are_not_whole_are_never_given_out_as_the_whole() -> None:
    report, _, answer = take(state(targets_bytes=20) + piece("targets", 0, b"one\ntwo\n"))

    final = answer.without_the_rest(report)

    assert (answer.complete, final.state, final.targets) == (False, ReportState.LOST, ())
    assert "the targets that it named did not all arrive" in final.reason


def test_targets_are_put_together_over_several_answers() -> None:
    report, _, answer = take(state(targets_bytes=12) + piece("targets", 0, b"one\ntw"))
    within = answer.within(0)

    second = answer.take(landing(state(targets_bytes=12) + piece("targets", 6, b"o\nend\n")), started=False)

    assert (within.targets_at, answer.complete, second.targets) == (6, True, ("one", "two", "end"))
    assert report.targets == ("one", "tw")


def test_a_listing_is_enough_only_when_nothing_is_missing() -> None:
    answer = Answer(ATTEMPT, lambda _: None)
    ready = state(stdout_bytes=3) + piece("out", 0, b"abc")

    assert [answer.enough(said) for said in (ready, state(stdout_bytes=3), "", state(stdout_bytes=0))] == [
        True,
        False,
        False,
        True,
    ]
    assert answer.offsets[Stream.STDOUT] == 0
