"""Scripts over the stand-in for AWS, which really runs them: what arrives, and what comes back."""

import random
import threading
from dataclasses import replace

import boto3
import pytest

from lab.process import wait_until
from lab.ssm import Instance
from service.domain.node import View
from service.domain.script import NotStarted, Report, ReportState, ScriptKind, Stream
from service.executors.local import LocalExecutor
from tests.executors.envelope_place import HERE, OTHER_BOOT, Heard, ref
from tests.executors.envelope_place import order as order_here
from tests.executors.ssm.support import GATHERING, Region, acting, endpoint, instance_id, order

pytestmark = pytest.mark.needs_root


def outcome(report: Report) -> tuple[ReportState, int | None, int | None]:
    return report.state, report.exit_code, report.signal


def test_a_script_is_sent_once_and_told_in_full(region: Region) -> None:
    since = len(region.sends())
    heard = Heard()
    given = order('echo out; echo err >&2; echo mount 57 >>"$UNSTICK_TARGETS"; exit 3')

    report = region.run(given, heard)

    assert (outcome(report), report.targets, report.truncated) == (
        (ReportState.FINISHED, 3, None),
        ("mount 57",),
        False,
    )
    assert (heard.text(), heard.text(Stream.STDERR)) == (b"out\n", b"err\n")
    assert [call.parameters["Comment"] for call in region.sends(since)] == [given.attempt_id]


@pytest.mark.parametrize("code", [137, 194, 255])
def test_an_exit_code_that_means_something_to_the_agent_never_reaches_it(region: Region, code: int) -> None:
    given = order(f"echo ran >>/run/code-{code}; exit {code}")

    report = region.run(given)

    listed = boto_status(region, given.attempt_id)
    assert (outcome(report), listed) == ((ReportState.FINISHED, code, None), "Success")
    assert region.place.file(f"code-{code}").read_text() == "ran\n"


def boto_status(region: Region, attempt_id: str) -> str:
    """Return what SSM says of the command with this comment."""
    listed = boto3.session.Session().client("ssm").list_commands()["Commands"]
    return next(str(one["Status"]) for one in listed if one["Comment"] == attempt_id)


def test_a_stored_parameter_is_not_put_into_a_script(region: Region) -> None:
    region.server.store({"secret": "word-that-must-not-be-seen"})
    heard = Heard()

    region.run(order("echo '{{ssm:secret}}' '{{ secret }}'"), heard)

    assert heard.text() == b"{{ssm:secret}} {{ secret }}\n"


@pytest.mark.parametrize(
    ("text", "code"),
    [("set -euo pipefail\necho first\nfalse | true\necho second", 1), ("set -euo pipefail\nfalse\necho done", 1)],
)
def test_the_shell_is_as_strict_as_over_every_other_way(region: Region, text: str, code: int) -> None:
    local = LocalExecutor(prefix=region.place.prefix)
    over_ssm, here = Heard(), Heard()

    reports = region.run(order(text), over_ssm), local.start(order_here(text, endpoint=HERE), here)

    local.close()
    assert [outcome(report) for report in reports] == [(ReportState.FINISHED, code, None)] * 2
    assert over_ssm.text() == here.text()


def test_thirty_thousand_lines_arrive_with_the_verdict_though_an_answer_is_cut(region: Region) -> None:
    heard = Heard()
    lines = "".join(f"{number:05} \u20ac\n" for number in range(30_000)).encode()

    report = region.run(order("for ((i = 0; i < 30000; i++)); do printf '%05d €\\n' $i; done; exit 7"), heard)

    assert (outcome(report), report.stdout_bytes, report.truncated) == (
        (ReportState.FINISHED, 7, None),
        len(lines),
        False,
    )
    assert heard.text() == lines


def test_neither_stream_starves_the_other(region: Region) -> None:
    since = len(region.sends())
    heard = Heard()
    noise = "head -c 12000 /dev/urandom | base64 -w0"

    report = region.run(order(f"{noise}; {noise} >&2"), heard)

    streams = [chunk.stream for chunk in heard.chunks]
    assert streams.index(Stream.STDOUT) < len(streams) - streams[::-1].index(Stream.STDERR)
    assert (len(heard.text()), len(heard.text(Stream.STDERR)), report.truncated) == (16_000, 16_000, False)
    assert len(region.sends(since)) > 1


def test_output_beyond_what_is_asked_for_is_told_to_be_cut(region: Region) -> None:
    region.again(questions=2)
    heard = Heard()

    report = region.run(order("head -c 90000 /dev/urandom; echo the end >&2"), heard)

    assert (outcome(report), report.truncated, report.stdout_bytes) == ((ReportState.FINISHED, 0, None), True, 90_000)
    assert "not all of it was fetched" in report.reason
    assert heard.text(Stream.STDERR) == b"the end\n"
    assert 30_000 < len(heard.text()) < 60_000


def test_targets_that_are_longer_than_an_answer_arrive_whole(region: Region) -> None:
    letters = random.Random(3)
    lines = ["".join(letters.choices("0123456789abcdef/-_.", k=60)) for _ in range(1000)]
    region.place.file("targets").write_text("".join(f"{line}\n" for line in lines))

    report = region.run(order('cat /run/targets >"$UNSTICK_TARGETS"'))

    assert (outcome(report), report.targets, report.truncated) == (
        (ReportState.FINISHED, 0, None),
        tuple(lines),
        False,
    )


def test_targets_beyond_the_limit_are_left_out_and_told(region: Region) -> None:
    report = region.run(order('for ((i = 0; i < 9000; i++)); do echo "target $i"; done >"$UNSTICK_TARGETS"'))

    assert report.targets == tuple(f"target {i}" for i in range(len(report.targets)))
    assert (5000 < len(report.targets) < 9000, report.truncated, "left out" in report.reason) == (True, True, True)


def test_approved_targets_reach_a_script_that_acts_and_are_not_sent_back(region: Region) -> None:
    heard = Heard()

    report = region.run(acting('cat "$UNSTICK_TARGETS"', targets=("one", "two  words")), heard)

    assert (outcome(report), heard.text()) == ((ReportState.FINISHED, 0, None), b"one\ntwo  words\n")


def test_a_script_that_takes_longer_than_a_command_runs_on_and_is_settled(region: Region) -> None:
    region.again(longest_wait=1)
    heard = Heard()
    given = acting("echo before; touch /run/begun; until [ -e /run/longer ]; do sleep 0.05; done; echo after; exit 4")

    first = region.run(given, heard)
    wait_until(region.place.file("begun").exists, "the script runs")
    second = region.settle(ref(given, wait=0, offsets=heard.offsets()), heard)
    region.place.file("longer").touch()
    last = region.settle(ref(given, wait=20, offsets=heard.offsets()), heard)

    assert [outcome(report) for report in (first, second, last)] == [
        (ReportState.RUNNING, None, None),
        (ReportState.RUNNING, None, None),
        (ReportState.FINISHED, 4, None),
    ]
    assert second.pid == last.pid
    assert heard.text() == b"before\nafter\n"


def test_a_script_is_stopped_by_the_envelope_and_not_by_aws(region: Region) -> None:
    cancels = len(region.server.calls_of("CancelCommand"))
    heard = Heard()
    given = acting("touch /run/to-stop; sleep 60")
    reports: list[Report] = []
    thread = threading.Thread(target=lambda: reports.append(region.run(given, heard)))
    thread.start()
    wait_until(region.place.file("to-stop").exists, "the script runs")
    wait_until(lambda: region.executor._starting[given.attempt_id].begun, "SSM says that it runs")

    stopped = region.executor.stop(ref(given), heard)
    thread.join()

    assert [report.ended_by_us for report in (stopped, reports[0])] == [True, True]
    assert len(region.server.calls_of("CancelCommand")) == cancels


def test_a_start_that_is_still_on_its_way_is_called_back_and_its_door_is_closed(region: Region) -> None:
    region.server.faults.deaf = {instance_id(9)}
    given = acting("touch /run/called-back", 9)
    reports: list[Report] = []
    thread = threading.Thread(target=lambda: reports.append(region.run(given)))
    thread.start()
    wait_until(lambda: given.attempt_id in region.executor._starting, "it is on its way")
    stops: list[Report] = []
    stop = threading.Thread(target=lambda: stops.append(region.executor.stop(ref(given), Heard())))

    stop.start()
    wait_until(lambda: bool(region.server.calls_of("CancelCommand")), "SSM is asked not to deliver it")
    region.server.faults.deaf = set()
    region.server.clock.advance(10)
    stop.join()
    thread.join()

    assert (stops[0].state, stops[0].not_started) == (ReportState.NOT_STARTED, NotStarted.VOID)
    assert reports[0].state is ReportState.LOST
    assert not region.place.file("called-back").exists()


def test_no_more_than_two_commands_are_under_way_on_a_node(region: Region) -> None:
    since = len(region.sends())
    orders = [
        acting(f"touch /run/turn-{number}; until [ -e /run/turns ]; do sleep 0.05; done", 5) for number in range(3)
    ]
    reports: list[Report] = []
    # The first holds the node; the others are refused by it, and yet each takes a turn.
    threads = [threading.Thread(target=lambda one=one: reports.append(region.run(one))) for one in orders]

    threads[0].start()
    wait_until(region.place.file("turn-0").exists, "the first runs")
    question = [threading.Thread(target=lambda: region.settle(ref(orders[0], wait=20)))]
    question.append(threading.Thread(target=lambda: region.settle(ref(orders[0], wait=20))))
    question[0].start()
    wait_until(lambda: len(region.sends(since)) == 2, "two are under way")
    question[1].start()
    wait_until(lambda: len(region.executor._turns._waiting[instance_id(5)]) == 1, "the third waits")
    sent = len(region.sends(since))
    region.place.file("turns").touch()
    for thread in (threads[0], *question):
        thread.join()

    assert (sent, len(region.sends(since))) == (2, 3)


def test_a_node_without_gzip_says_so(region: Region) -> None:
    prefix = region.place.prefix
    script = (
        "mkdir -p /run/few && for p in sh base64 setsid mkdir cat chmod env; do ln -sf $(command -v $p) /run/few/; done"
    )
    region.place.mounts.run(["sh", "-c", script])
    region.server.add(Instance(instance_id(70), prefix=lambda: [*prefix, "/usr/bin/env", "PATH=/run/few"]))

    report = region.run(order("true", 70, kind=ScriptKind.CHECK))

    assert (report.state, report.not_started) == (ReportState.NOT_STARTED, NotStarted.NO_BASH)
    assert "gpu-70 has no gzip on the PATH" in report.reason


def test_an_agent_that_does_not_say_where_it_is_gets_its_scripts_alone(region: Region) -> None:
    prefix = region.place.prefix
    region.server.add(Instance(instance_id(71), prefix=lambda: [*prefix, "env", "-u", "AWS_SSM_INSTANCE_ID"]))
    region.again(tempo=GATHERING)
    since = len(region.sends())
    orders = [order("echo ran >>/run/alone", 71), order("echo ran >>/run/alone", 3)]

    reports = region.together(orders)
    again = region.together([order("true", 71), order("true", 4)])

    assert [outcome(report) for report in (*reports, *again)] == [(ReportState.FINISHED, 0, None)] * 4
    assert region.place.file("alone").read_text() == "ran\nran\n"
    sizes = sorted(len(call.parameters["InstanceIds"]) for call in region.sends(since))
    assert sizes == [1, 1, 1, 2]


def test_an_endpoint_in_another_boot_is_told_over_ssm_as_well(region: Region) -> None:
    report = region.run(replace(acting("touch /run/other-boot"), boot_id=OTHER_BOOT))

    assert (report.state, report.not_started) == (ReportState.NOT_STARTED, NotStarted.OTHER_BOOT)
    assert not region.place.file("other-boot").exists()


def test_a_look_that_is_not_made_on_the_machine_itself_is_refused(region: Region) -> None:
    report = region.run(order("true", endpoint=endpoint(view=View.MACHINE)))

    assert (report.state, report.not_started) == (ReportState.NOT_STARTED, NotStarted.WRONG_VIEW)
