"""What goes wrong between us, AWS and an agent: nothing runs twice, and nothing unknown is called anything else."""

import threading
from dataclasses import replace

import pytest

from lab.process import wait_until
from lab.ssm import Moment, Outcome
from service.domain.script import AttemptRef, NotStarted, Report, ReportState
from tests.executors.envelope_place import Heard, ref
from tests.executors.ssm.support import IMPATIENT, Region, acting, endpoint, instance_id, order

pytestmark = pytest.mark.needs_root
LOST, NOT_STARTED, FINISHED = ReportState.LOST, ReportState.NOT_STARTED, ReportState.FINISHED


def counting(name: str, number: int = 1, **changes: object):  # type: ignore[no-untyped-def]
    """Return an acting order that leaves a line for each time it runs."""
    return acting(f"echo ran >>/run/{name}; echo done", number, **changes)


def runs(region: Region, name: str) -> int:
    """Return how often a script has run."""
    trace = region.place.file(name)
    return len(trace.read_text().splitlines()) if trace.exists() else 0


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome.INTERNAL,
        Outcome.INTERNAL_AFTER,
        Outcome.UNAVAILABLE,
        Outcome.CUT,
        Outcome.CUT_AFTER,
        Outcome.HANG,
        Outcome.HANG_AFTER,
    ],
)
def test_a_lost_answer_is_never_retried_and_a_second_start_of_the_attempt_runs_it_once(
    region: Region, outcome: Outcome
) -> None:
    if outcome in (Outcome.HANG, Outcome.HANG_AFTER):
        region.again(patience=IMPATIENT)
    since = len(region.sends())
    region.server.faults.next("SendCommand", outcome)
    given = counting(f"lost-{outcome}")

    lost = region.run(given)
    # A call is in the log when it is answered, which on a slow machine is after the client has given up.
    wait_until(lambda: len(region.sends(since)) > 0, "the stand-in has it")
    sent_once = len(region.sends(since))
    region.again()
    second = region.run(replace(given, resend=True))

    assert (lost.state, sent_once, second.state, second.exit_code) == (LOST, 1, FINISHED, 0)
    assert "No answer came from gpu-01" in lost.reason
    assert runs(region, f"lost-{outcome}") == 1


def test_the_command_whose_answer_was_lost_is_named_for_the_record(region: Region) -> None:
    region.server.faults.next("SendCommand", Outcome.INTERNAL_AFTER)
    listing = region.server._state.timing.listing
    region.server.clock.advance(listing)
    given = counting("named")
    region.server.faults.next("SendCommand", Outcome.CUT_AFTER)

    # The first command is listed by now; its answer was lost as well.
    first = region.run(given)
    region.server.clock.advance(listing + 1)
    lost = region.run(given)

    command = region.sends()[-2].command_id
    assert (first.state, lost.state) == (LOST, LOST)
    assert f"SSM has it as command {command}" in lost.reason


def test_a_lost_send_that_is_settled_first_closes_the_door_or_tells_the_end(region: Region) -> None:
    region.server.faults.next("SendCommand", Outcome.CUT)
    never, late = counting("never"), counting("late")
    region.run(never)
    region.server.faults.next("SendCommand", Outcome.CUT_AFTER)
    region.run(late)
    wait_until(lambda: runs(region, "late") == 1, "it runs though nobody knows")

    settled = [region.settle(ref(never)), region.settle(ref(late))]

    assert [(one.state, one.not_started) for one in settled] == [(NOT_STARTED, NotStarted.VOID), (FINISHED, None)]
    assert region.run(replace(never, resend=True)).not_started is NotStarted.VOID
    assert (runs(region, "never"), runs(region, "late")) == (0, 1)


@pytest.mark.parametrize("outcome", [Outcome.THROTTLE, Outcome.TOO_MANY])
def test_what_aws_denied_for_its_rate_is_sent_until_it_is_taken(region: Region, outcome: Outcome) -> None:
    since = len(region.sends())
    region.server.faults.next("SendCommand", *[outcome] * 4)

    report = region.run(counting(f"throttled-{outcome}"))

    answers = [call.answered for call in region.sends(since)]
    assert (report.state, len(answers), answers[-1], runs(region, f"throttled-{outcome}")) == (FINISHED, 5, "ok", 1)


def test_a_command_that_aws_denies_for_long_was_not_started(region: Region) -> None:
    region.again(tempo=replace(region.executor._tempo, send_for=0.4))
    region.server.faults.always(Outcome.THROTTLE, operations=["SendCommand"])

    report = region.run(counting("denied"))

    assert (report.state, report.not_started) == (NOT_STARTED, NotStarted.UNREACHABLE)
    assert "Nothing was started on gpu-01: AWS throttles SendCommand" in report.reason
    assert "`concurrent_nodes`" in report.reason


def test_throttled_reads_only_make_it_slower(region: Region) -> None:
    region.server.faults.next("ListCommandInvocations", Outcome.THROTTLE)
    region.server.faults.next("GetCommandInvocation", Outcome.TOO_MANY)

    report = region.run(order("seq 20000; exit 5"))

    assert (report.state, report.exit_code) == (FINISHED, 5)


@pytest.mark.parametrize(
    ("outcome", "words"),
    [(Outcome.DENY, "may not send this document"), (Outcome.EXPIRED, "credentials of unstick have expired")],
)
def test_a_refusal_of_aws_is_proof_that_nothing_was_started(region: Region, outcome: Outcome, words: str) -> None:
    since = len(region.sends())
    region.server.faults.next("SendCommand", outcome)

    report = region.run(counting(f"refused-{outcome}"))

    assert (report.state, report.not_started, len(region.sends(since))) == (NOT_STARTED, NotStarted.REFUSED, 1)
    assert words in report.reason


def test_an_instance_that_ssm_does_not_know_is_told_with_its_causes_and_not_tried_again(region: Region) -> None:
    since = len(region.sends())

    report = region.run(order("true", 99))

    assert (report.state, report.not_started, len(region.sends(since))) == (NOT_STARTED, NotStarted.UNREACHABLE, 1)
    for words in ("another account or region", "AmazonSSMManagedInstanceCore", "does not list it at all"):
        assert words in report.reason


@pytest.mark.parametrize(
    ("word", "cause", "reason"),
    [
        ("Undeliverable", NotStarted.UNREACHABLE, "SSM cannot deliver it"),
        ("AccessDenied", NotStarted.REFUSED, "may not send to this instance"),
        ("InvalidPlatform", NotStarted.REFUSED, "not for the platform"),
    ],
)
def test_what_never_reached_the_node_was_not_started(region: Region, word: str, cause: NotStarted, reason: str) -> None:
    region.server.faults.refused = {instance_id(2): word}

    report = region.run(counting(f"never-{word}", 2))

    assert (report.state, report.not_started) == (NOT_STARTED, cause)
    assert reason in report.reason
    assert runs(region, f"never-{word}") == 0


def kill_agent(region: Region, number: int) -> None:
    """End the agent of an instance; the script is not its to end."""
    state = region.server._state
    with state.lock:
        state.agents[instance_id(number)].die(back_at=None)


def revive_agent(region: Region, number: int) -> None:
    """Start it again."""
    state = region.server._state
    with state.lock:
        state.agents[instance_id(number)].back_at = state.now()
        state.agents[instance_id(number)].look()


def over(region: Region, report: list[Report]) -> bool:
    """Let a minute of AWS pass while nobody has an answer."""
    region.server.clock.advance(15)
    return bool(report)


@pytest.mark.parametrize(("shown", "expected"), [("Delayed", NOT_STARTED), ("InProgress", LOST)])
def test_a_delivery_that_timed_out_is_proof_only_when_nothing_can_have_begun(
    region: Region, shown: str, expected: ReportState
) -> None:
    region.server.faults.undelivered = shown
    region.server.faults.deaf = {instance_id(3)}
    reports: list[Report] = []
    given = counting(f"deaf-{shown}", 3)
    thread = threading.Thread(target=lambda: reports.append(region.run(given)))
    thread.start()
    wait_until(lambda: given.attempt_id in region.executor._starting, "it is on its way")
    flight = region.executor._starting[given.attempt_id]
    wait_until(lambda: flight.begun or flight.seen_waiting is not None, "it was seen")

    wait_until(lambda: over(region, reports), "it is over")

    thread.join()
    assert (reports[0].state, runs(region, f"deaf-{shown}")) == (expected, 0)


def test_a_node_that_dies_with_the_script_leaves_it_unknown_until_it_is_asked(region: Region) -> None:
    reports: list[Report] = []
    given = acting("echo ran >>/run/died; until [ -e /run/died-go ]; do sleep 0.05; done", 4)
    thread = threading.Thread(target=lambda: reports.append(region.run(given)))
    thread.start()
    wait_until(lambda: runs(region, "died") == 1, "it ran")
    flight = region.executor._starting[given.attempt_id]
    wait_until(lambda: flight.begun, "SSM says that it may run")

    kill_agent(region, 4)
    wait_until(lambda: over(region, reports), "SSM gives it up")
    thread.join()
    region.place.file("died-go").touch()
    revive_agent(region, 4)
    settled = region.settle(ref(given))

    assert (reports[0].state, settled.state, settled.exit_code, runs(region, "died")) == (LOST, FINISHED, 0, 1)
    assert "may have begun before" in reports[0].reason


@pytest.mark.parametrize("moment", [Moment.BEFORE, Moment.AFTER])
def test_an_agent_that_dies_and_comes_back_runs_nothing_twice(region: Region, moment: Moment) -> None:
    region.server.faults.die(instance_id(6), moment, back_after=3)

    report = region.run(counting(f"back-{moment}", 6))

    assert (report.state, report.exit_code, runs(region, f"back-{moment}")) == (FINISHED, 0, 1)


def test_an_agent_whose_worker_was_gone_is_asked_about_the_script(region: Region) -> None:
    reports: list[Report] = []
    given = acting("echo ran >>/run/worker; until [ -e /run/worker-go ]; do sleep 0.05; done", 7)
    thread = threading.Thread(target=lambda: reports.append(region.run(given)))
    thread.start()
    wait_until(lambda: runs(region, "worker") == 1, "it ran")

    kill_agent(region, 7)
    revive_agent(region, 7)
    thread.join()
    region.place.file("worker-go").touch()
    settled = region.settle(ref(given))

    assert (reports[0].state, settled.state, settled.exit_code, runs(region, "worker")) == (LOST, FINISHED, 0, 1)
    assert "the agent says Failed, and nothing of ours came back" in reports[0].reason


def test_an_agent_that_dies_before_the_envelope_speaks_has_started_nothing(region: Region) -> None:
    region.server.faults.die(instance_id(11), Moment.DURING, back_after=2)
    given = counting("speechless", 11)

    lost = region.run(given)
    settled = region.settle(ref(given))

    begun = runs(region, "speechless")
    assert (lost.state, begun) in ((LOST, 0), (LOST, 1))
    assert settled.state is (FINISHED if begun else NOT_STARTED)


def test_a_command_that_is_delivered_twice_runs_once(region: Region) -> None:
    region.server.faults.duplicates = 2

    report = region.run(counting("duplicate", 8))

    assert (report.state, runs(region, "duplicate")) == (FINISHED, 1)


def test_a_question_that_does_not_arrive_proves_nothing(region: Region) -> None:
    attempt = AttemptRef("nobody-knows", endpoint(2), None)
    region.server.faults.refused = {instance_id(2): "Undeliverable"}

    undelivered = region.settle(attempt)
    region.server.faults.next("SendCommand", Outcome.DENY)
    refused = region.executor.stop(attempt, Heard())

    assert [report.state for report in (undelivered, refused)] == [LOST, LOST]


def test_a_service_that_stops_leaves_the_script_alone(region: Region) -> None:
    given = acting("touch /run/left; until [ -e /run/left-go ]; do sleep 0.05; done; exit 6", 10)
    reports: list[Report] = []
    thread = threading.Thread(target=lambda: reports.append(region.run(given)))
    thread.start()
    wait_until(region.place.file("left").exists, "the script runs")

    region.executor.close()
    thread.join()
    region.again()
    region.place.file("left-go").touch()
    settled = region.settle(ref(given))

    assert (reports[0].state, settled.state, settled.exit_code) == (LOST, FINISHED, 6)
    assert "the service is stopping" in reports[0].reason


def test_after_the_end_nothing_is_sent_any_more(region: Region) -> None:
    since = len(region.sends())
    region.executor.close()

    report = region.run(order("true"))

    assert (report.state, report.not_started, len(region.sends(since))) == (NOT_STARTED, NotStarted.UNREACHABLE, 0)
    assert report.reason == "Nothing was sent to gpu-01: unstick is stopping."


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None}, "has no AWS credentials"),
        ({"AWS_DEFAULT_REGION": None}, "no AWS region is known"),
        ({"AWS_PROFILE": "nobody"}, "The config profile (nobody) could not be found"),
        ({"AWS_ENDPOINT_URL_SSM": "http://127.0.0.1:9"}, "endpoint of SSM was not reached"),
        ({"AWS_ENDPOINT_URL_SSM": "nonsense"}, "Invalid endpoint: nonsense"),
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, "does not accept the credentials"),
    ],
)
def test_no_error_of_the_library_escapes_and_each_has_a_way_out(
    region: Region, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str | None], words: str
) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    for name, value in variables.items():
        monkeypatch.delenv(name) if value is None else monkeypatch.setenv(name, value)
    region.again()

    reports = [region.run(order("true")), region.settle(AttemptRef("a1", endpoint(), None))]

    assert [report.state for report in reports] == [NOT_STARTED, LOST]
    for report in reports:
        assert words in report.reason


def test_a_document_that_is_not_the_pinned_one_carries_nothing(region: Region) -> None:
    report = region.run(order("touch /run/unpinned", endpoint=endpoint(document_hash="ab" * 32)))

    assert (report.state, report.not_started) == (NOT_STARTED, NotStarted.REFUSED)
    assert "not the one whose hash is pinned" in report.reason
    assert not region.place.file("unpinned").exists()
