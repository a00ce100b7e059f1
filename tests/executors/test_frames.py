"""What is read of the node's bytes, whatever stands around them and wherever they are cut."""

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.node import Become, Endpoint, ExecutorKind
from service.domain.script import Facts, NotStarted, OutputChunk, Report, ReportState, Stream
from service.executors.frames import LONGEST_LINE, NOISE_KEPT, SHELL_ENDED, Conversation

NODE = Endpoint("gpu-01", ExecutorKind.SSH, "192.0.2.1")
PLACE = {"uid": 0, "clock": 1_700_000_000.5, "pid_namespace": 4026531836, "mounts_are_init": True, "init": "systemd"}
FACTS = Facts(
    boot_id="b1",
    uid=0,
    clock=datetime.fromtimestamp(1_700_000_000.5, UTC),
    pid_namespace=4026531836,
    mount_namespace_is_init=True,
    init_name="systemd",
)


def encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def frame(kind: str, **fields: object) -> bytes:
    return f"unstick a1 {json.dumps({'frame': kind, **fields})}\n".encode()


def state(name: str, **fields: object) -> bytes:
    return frame("state", state=name, boot_id="b1", **PLACE, **fields)


def out(offset: int, data: bytes, stream: str = "stdout") -> bytes:
    return frame("out", stream=stream, offset=offset, data=encode(data))


def read(data: bytes, endpoint: Endpoint = NODE) -> tuple[list[OutputChunk], Report]:
    conversation = Conversation("a1", endpoint)
    chunks = conversation.feed(data)
    return chunks, conversation.conclude(SHELL_ENDED)


def report_of(data: bytes) -> Report:
    return read(data)[1]


def test_a_finished_script_is_told_in_full() -> None:
    fields = {"pid": 7, "exit_code": 3, "started": 1_700_000_000, "finished": 1_700_000_001.25, "stdout_bytes": 5}
    targets = encode(b"one\ntwo\n")

    report = report_of(state("finished", **fields, stderr_bytes=6, stderr_cut="yes", targets=targets))

    assert report == Report(
        ReportState.FINISHED,
        exit_code=3,
        pid=7,
        boot_id="b1",
        targets=("one", "two"),
        stdout_bytes=5,
        stderr_bytes=6,
        truncated=True,
        started_at=datetime.fromtimestamp(1_700_000_000, UTC),
        finished_at=datetime.fromtimestamp(1_700_000_001.25, UTC),
        facts=FACTS,
    )


@pytest.mark.parametrize(
    ("name", "fields", "state_of_report", "words"),
    [
        ("running", {"pid": 7}, ReportState.RUNNING, "still runs on gpu-01 (pid 7)"),
        ("running", {}, ReportState.RUNNING, "is being started on gpu-01"),
        ("unkillable", {"pid": 7, "wchan": "fuse_x"}, ReportState.UNKILLABLE, "Process 7 of the script on gpu-01"),
        ("rebooted", {}, ReportState.REBOOTED, "gpu-01 has booted since"),
        ("unknown", {"pid": 7}, ReportState.LOST, "without an exit code"),
        ("finished", {"ended_by": "deadline", "signal": 15}, ReportState.FINISHED, "at its deadline"),
        ("finished", {"ended_by": "stop", "signal": 9}, ReportState.FINISHED, "was stopped"),
        ("finished", {"stderr_open": "yes", "exit_code": 0}, ReportState.FINISHED, "left behind holds stderr."),
    ],
)
def test_every_state_has_words(name: str, fields: dict[str, object], state_of_report: ReportState, words: str) -> None:
    report = report_of(state(name, **fields))

    assert report.state is state_of_report
    assert words in report.reason


@pytest.mark.parametrize(
    ("cause", "fields", "words"),
    [
        ("other_boot", {}, "Look again"),
        ("too_late", {"not_after": 1_600_000_000}, "after 2020-09-13 12:26:40 UTC"),
        ("clock", {"sent_at": 1_800_000_000}, "sent at 2027-01-15 08:00:00 UTC"),
        ("held", {"holder_service": "s2", "holder_attempt": "a9", "pid": 8}, "held by attempt a9 of s2, pid 8"),
        ("held", {"wchan": "fuse_x", "holder_attempt": "a9"}, "waiting in fuse_x"),
        ("held", {}, "held by somebody who is just looking"),
        ("void", {}, "never started on gpu-01"),
        ("no_bash", {"missing": "setsid"}, "has no setsid"),
        ("no_space", {}, "df /run"),
        ("folder", {"said": encode(b"mkdir: no\n")}, "cannot be used (mkdir: no)"),
        ("wrong_view", {}, "view: machine of gpu-01"),
    ],
)
def test_every_refusal_names_the_cause_and_the_way_out(cause: str, fields: dict[str, object], words: str) -> None:
    report = report_of(state("not_started", reason=cause, **fields))

    assert (report.state, report.not_started, report.facts) == (ReportState.NOT_STARTED, NotStarted(cause), FACTS)
    assert words in report.reason


def test_a_script_that_ran_unconfined_says_what_did_not_hold() -> None:
    report = report_of(state("finished", exit_code=0, unconfined="mounts:38 odd:9999"))

    assert (report.state, report.exit_code) == (ReportState.FINISHED, 0)
    assert report.reason == (
        "Unconfined: its mounts are not read-only (Function not implemented); odd (nobody knows why)."
    )


def test_a_script_that_could_not_be_confined_as_it_must_be_was_not_started() -> None:
    report = report_of(state("finished", exit_code=126, unconfined="refused user:1"))

    assert (report.state, report.not_started, report.facts) == (
        ReportState.NOT_STARTED,
        NotStarted.UNCONFINED,
        FACTS,
    )
    assert "it keeps the rights of its user (Operation not permitted). Nothing was started." in report.reason


@pytest.mark.parametrize("cause", ["unreachable", "host_key", "login", "sudo", "refused", "nonsense", ""])
def test_a_node_cannot_refuse_for_a_reason_that_is_not_its_own(cause: str) -> None:
    report = report_of(state("not_started", reason=cause))

    assert report.state is ReportState.LOST


@given(st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), st.binary(max_size=80))), st.data())
def test_bytes_may_be_cut_anywhere(pieces: list[tuple[str, bytes]], data: st.DataObject) -> None:
    offsets = dict.fromkeys(Stream, 0)
    expected = []
    sent = b"welcome\r\n\n"
    for name, piece in pieces:
        stream = Stream(name)
        sent += out(offsets[stream], piece, name) + data.draw(st.sampled_from([b"", b"noise\n", b"\xff{}\n"]))
        expected.append(OutputChunk("a1", stream, offsets[stream], piece))
        offsets[stream] += len(piece)
    sent += state("finished", exit_code=0)
    conversation = Conversation("a1", NODE)

    chunks = []
    while sent:
        size = data.draw(st.integers(1, 40))
        chunks += conversation.feed(sent[:size])
        sent = sent[size:]

    assert chunks == expected
    assert conversation.conclude("").exit_code == 0


@given(st.binary(max_size=300))
def test_no_bytes_are_an_answer_by_accident(data: bytes) -> None:
    conversation = Conversation("a1", NODE)

    chunks = conversation.feed(data + b"\n")

    assert (chunks, conversation.report) == ([], None)


@pytest.mark.parametrize(
    "line",
    [
        state("finished", exit_code=0).replace(b"a1", b"a2"),
        b"x" + state("finished", exit_code=0),
        state("finished", exit_code=0).replace(b"}\n", b"} \n"),
        b'unstick a1 {"frame":"state","state":"finished"\n',
        b'unstick a1 ["state"]\n',
        b"unstick a1 {}\n",
        state("finished", exit_code="0"),
        state("finished", exit_code=True),
        state("finished", exit_code=0, started="now"),
        state("finished", exit_code=0, started=1e300),
        b'unstick a1 {"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
        state("finished", exit_code=256),
        state("finished", exit_code=-1),
        state("finished", signal=0),
        state("finished", signal=65),
        state("running", pid=2**53),
        state("finished", exit_code=0, stdout_bytes=10**25),
        state("finished", exit_code=0, stderr_bytes=-1),
        state("finished", exit_code=0, targets_bytes=2**53),
        state("finished", exit_code=0, targets="not base64!"),
        state("finished", exit_code=0, wchan=5),
        state("well"),
    ],
)
def test_a_line_that_is_not_quite_a_frame_is_noise(line: bytes) -> None:
    conversation = Conversation("a1", NODE)

    conversation.feed(line)

    assert conversation.report is None


@pytest.mark.parametrize(
    "change",
    [
        {"stream": "stdin"},
        {"data": "%%%"},
        {"offset": "1"},
        {"offset": -1},
        {"offset": 2**53},
        {"offset": None},
    ],
)
def test_output_that_is_not_quite_output_is_noise(change: dict[str, object]) -> None:
    fields = {"stream": "stdout", "offset": 0, "data": encode(b"x"), **change}
    conversation = Conversation("a1", NODE)

    chunks = conversation.feed(frame("out", **fields))

    assert [chunk.offset for chunk in chunks] in ([], [0])
    assert chunks == [] or change == {"offset": None}


def test_carriage_returns_of_a_terminal_do_no_harm() -> None:
    sent = out(0, b"hi") + state("finished", exit_code=4)

    chunks, report = read(sent.replace(b"\n", b"\r\n"))

    assert ([chunk.data for chunk in chunks], report.exit_code) == ([b"hi"], 4)


def test_noise_is_bounded() -> None:
    conversation = Conversation("a1", NODE)

    for _ in range(20):
        conversation.feed(b"x" * LONGEST_LINE)
        conversation.hear(b"y" * LONGEST_LINE)
        conversation.feed(b"a line of a banner\n" * 2000)

    assert len(conversation.noise) == NOISE_KEPT
    assert len(conversation.feed(out(0, b"z"))) == 1


def test_a_segment_fits_into_a_frame() -> None:
    chunks, _ = read(out(0, bytes(65536)))

    assert [len(chunk.data) for chunk in chunks] == [65536]


def test_targets_beyond_the_limit_are_cut_at_a_line() -> None:
    data = b"".join(b"target %d\n" % number for number in range(9000))[: 64 * 1024 + 1]

    report = report_of(state("finished", exit_code=0, targets=encode(data)))

    assert report.targets == tuple(f"target {number}" for number in range(len(report.targets)))
    assert len("\n".join(report.targets)) < 64 * 1024
    assert (report.truncated, "left out" in report.reason) == (True, True)


def test_a_target_that_is_no_text_is_shown_as_hexadecimal() -> None:
    report = report_of(state("finished", exit_code=0, targets=encode(b"/data/caf\xe9\n/\xc3\xa9\n")))

    assert report.targets == ("/data/caf\\xe9", "/é")


@pytest.mark.parametrize(
    "said",
    [
        b"sudo: a password is required\n",
        b"welcome\nsudo: a terminal is required to read the password\n",
        b"sudo: sorry, you must have a tty to run sudo\n",
        b"alice is not in the sudoers file.\n",
        b"env: 'sudo': No such file or directory\n",
    ],
)
def test_a_refusal_of_sudo_is_proof(said: bytes) -> None:
    conversation = Conversation("a1", replace(NODE, become=Become.SUDO))
    conversation.hear(said)

    report = conversation.conclude(SHELL_ENDED)

    assert (report.state, report.not_started) == (ReportState.NOT_STARTED, NotStarted.SUDO)
    assert "sudo needs a password or a tty on gpu-01" in report.reason


def test_words_about_sudo_prove_nothing_without_sudo_or_after_a_lost_link() -> None:
    reports = []
    for endpoint, ending in ((NODE, SHELL_ENDED), (replace(NODE, become=Become.SUDO), "the connection was lost")):
        conversation = Conversation("a1", endpoint)
        conversation.hear(b"sudo: a password is required\n")
        reports.append(conversation.conclude(ending))

    assert [report.state for report in reports] == [ReportState.LOST] * 2


def test_words_about_sudo_prove_nothing_after_a_frame() -> None:
    conversation = Conversation("a1", replace(NODE, become=Become.SUDO))
    conversation.feed(frame("alive"))
    conversation.hear(b"sudo: a password is required\n")

    report = conversation.conclude(SHELL_ENDED)

    assert report.state is ReportState.LOST


def test_a_user_without_a_shell_is_proof() -> None:
    _, report = read(b"This account is currently not available.\n")

    assert (report.state, report.not_started) == (ReportState.NOT_STARTED, NotStarted.LOGIN)


def test_silence_proves_nothing() -> None:
    conversation = Conversation("a1", NODE)
    conversation.feed(b"Segmentation fault\n")

    report = conversation.conclude("the connection was reset")

    assert report.state is ReportState.LOST
    assert "No answer came from gpu-01: the connection was reset (last heard: 'Segmentation fault')" in report.reason
