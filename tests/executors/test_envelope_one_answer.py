"""Where an answer comes once, at its end, and is cut: the state first, then what fits, the rest when asked again."""

import subprocess
from dataclasses import replace

import pytest

from lab.process import wait_until
from service.domain.script import ReportState, ScriptOrder, Stream
from service.executors import envelope
from service.executors.envelope import OneAnswer
from service.executors.frames import Conversation
from tests.executors.envelope_place import HERE, Place, order, ref

pytestmark = pytest.mark.needs_root
LIMIT = 2000


def say(place: Place, data: bytes, *, seconds: float = 60) -> bytes:
    """Return all that the envelope writes."""
    command = [*place.prefix, "sh", "-c", envelope.command_line(HERE)]
    return subprocess.run(command, input=data, capture_output=True, check=False, timeout=seconds).stdout


def start(place: Place, given: ScriptOrder, *, wait: int = 20, limit: int = LIMIT) -> bytes:
    return say(place, envelope.for_start(given, OneAnswer(wait, limit)))


def begin(place: Place, given: ScriptOrder, words: str) -> None:
    """Start a script without a wait, and go on when its first words are kept."""
    start(place, given, wait=0)
    kept = place.folder / given.attempt_id / "stdout.total"
    wait_until(lambda: kept.read_text().startswith(f"{len(words)} "), "its first words are kept")


def frames(answer: bytes) -> list[str]:
    """Return the kinds of the frames, in order."""
    lines = [line for line in answer.decode().splitlines() if line.startswith("unstick ")]
    return [line.split('"')[3] for line in lines]


def test_the_state_comes_first_and_all_fits_into_the_limit(place: Place) -> None:
    given = order('seq 5000; seq 5000 >&2; seq 500 >"$UNSTICK_TARGETS"; exit 3')

    answer = start(place, given, limit=5000)

    conversation = Conversation(given.attempt_id, given.endpoint)
    chunks = conversation.feed(answer)
    assert frames(answer)[:2] == ["state", "targets"]
    assert len(answer) <= 5000
    assert {chunk.stream for chunk in chunks} == set(Stream)
    assert conversation.report is not None
    assert (conversation.report.exit_code, conversation.report.stdout_bytes) == (3, 23893)
    assert (conversation.targets_bytes, conversation.report.targets) == (1892, ())


def test_what_did_not_fit_comes_when_it_is_asked_for(place: Place) -> None:
    given = order('seq 2000; for ((i = 0; i < 300; i++)); do echo "target $RANDOM"; done | tee "$UNSTICK_TARGETS" >&2')
    answers = [start(place, given)]
    held = {Stream.STDOUT: b"", Stream.STDERR: b""}
    targets, total = b"", 1

    for _ in range(20):
        conversation = Conversation(given.attempt_id, given.endpoint)
        for chunk in conversation.feed(answers[-1]):
            assert chunk.offset == len(held[chunk.stream])
            held[chunk.stream] += chunk.data
        for offset, piece in conversation.targets.items():
            assert offset == len(targets)
            targets += piece
        total = conversation.targets_bytes
        attempt = ref(given, offsets={stream: len(data) for stream, data in held.items()}, wait=0)
        answers.append(say(place, envelope.for_settle(attempt, OneAnswer(0, LIMIT, len(targets)))))
        if frames(answers[-1]) == ["state"]:
            break

    assert held[Stream.STDOUT] == b"".join(b"%d\n" % number for number in range(1, 2001))
    assert (held[Stream.STDERR], len(targets)) == (targets, total)
    assert len(answers) > 3
    assert all(len(answer) <= LIMIT for answer in answers)


def test_output_that_was_dropped_is_a_gap_and_not_other_bytes(place: Place) -> None:
    given = order("seq -f %09.0f 0 199999", timeout=order("").timeout)
    numbers = b"".join(b"%09d\n" % number for number in range(200_000))
    end, pieces, answer = 0, 0, start(place, given, limit=200_000)

    while True:
        conversation = Conversation(given.attempt_id, given.endpoint)
        chunks = conversation.feed(answer)
        for chunk in chunks:
            assert chunk.data == numbers[chunk.offset : chunk.offset + len(chunk.data)]
            end = chunk.offset + len(chunk.data)
            pieces += 1
        if not chunks:
            break
        attempt = ref(given, offsets={Stream.STDOUT: end}, wait=0)
        answer = say(place, envelope.for_settle(attempt, OneAnswer(0, 200_000)))

    assert (end, pieces <= 10) == (len(numbers), True)


def test_a_script_that_runs_on_is_told_after_the_wait_with_its_output_so_far(place: Place) -> None:
    given = order("echo so far; until [ -e /run/one-answer ]; do sleep 0.05; done")
    begin(place, given, "so far\n")

    answer = start(place, given, wait=1)
    place.file("one-answer").touch()
    settled = say(place, envelope.for_settle(ref(given, offsets={Stream.STDOUT: 7}), OneAnswer(20, LIMIT)))

    conversation = Conversation(given.attempt_id, given.endpoint)
    chunks = conversation.feed(answer)
    assert conversation.report is not None
    assert conversation.report.state is ReportState.RUNNING
    assert [chunk.data for chunk in chunks] == [b"so far\n"]
    assert (frames(answer), frames(settled)) == (["state", "out"], ["state"])


def test_a_stop_tells_the_state_first_as_well(place: Place) -> None:
    given = order("echo out; sleep 60")
    begin(place, given, "out\n")

    answer = say(place, envelope.for_stop(ref(given), OneAnswer(0, LIMIT)))

    conversation = Conversation(given.attempt_id, given.endpoint)
    conversation.feed(answer)
    assert conversation.report is not None
    assert (conversation.report.state, conversation.report.ended_by_us) == (ReportState.FINISHED, True)
    assert frames(answer)[0] == "state"


def test_each_machine_of_several_finds_its_own_script(place: Place) -> None:
    orders = {f"i-{n:08}": order(f"echo of machine {n}") for n in range(3)}
    data = envelope.for_starts(orders, OneAnswer(20, LIMIT))

    for machine, given in orders.items():
        answer = say(place, b"# %s\nmachine=%s\n%s" % (given.attempt_id.encode(), machine.encode(), data))
        chunks = Conversation(given.attempt_id, given.endpoint).feed(answer)
        assert [chunk.data for chunk in chunks] == [b"of machine %d\n" % int(machine[2:])]


def test_a_machine_for_which_there_is_nothing_starts_nothing(place: Place) -> None:
    given = order("touch /run/for-another")
    data = envelope.for_starts({"i-00000001": given}, OneAnswer(20, LIMIT))

    answer = say(place, b"# %s\nmachine=i-00000002\n%s" % (given.attempt_id.encode(), data))

    assert not place.file("for-another").exists()
    assert (place.folder / given.attempt_id).exists() is False
    assert frames(answer) in ([], ["state"])


def test_an_envelope_for_several_that_was_cut_runs_nothing(place: Place) -> None:
    given = order("touch /run/cut-for-several")
    data = b"# a1\nmachine=i-00000001\n" + envelope.for_starts({"i-00000001": given}, OneAnswer(20, LIMIT))

    for length in (len(data) // 2, len(data) - 40, len(data) - 2):
        assert b"unstick " not in say(place, data[:length])

    assert not place.file("cut-for-several").exists()


def test_other_transports_get_what_they_always_got() -> None:
    given = order("true")

    assert b"setting limit" not in envelope.for_start(given)
    assert b"setting limit '2000'" in envelope.for_start(replace(given, acting=True), OneAnswer(1, LIMIT))
