"""Many nodes at once: few commands, few questions, and one bad node is nobody else's trouble."""

from dataclasses import replace

import pytest

from lab.ssm import Outcome
from service.app.check_nodes import check_nodes
from service.domain.script import NotStarted, ReportState, ScriptKind
from service.executors.registry import ExecutorsByKind
from tests.executors.envelope_place import Heard
from tests.executors.ssm.support import TEMPO, Region, acting, endpoint, instance_id, order
from tests.support.world import RealClock

pytestmark = pytest.mark.needs_root
FINISHED, NOT_STARTED = ReportState.FINISHED, ReportState.NOT_STARTED


def test_looks_at_sixty_nodes_share_commands_of_fifty_at_most_and_each_node_gets_its_own(region: Region) -> None:
    # Those that come late share one more; what is asked each second would be counted by how long it all takes.
    region.again(tempo=replace(TEMPO, gather=3.0, look=5.0, slowest_look=5.0))
    since, all_before = len(region.sends()), len(region.server.calls)
    orders = [order(f"echo ran >>/run/many-{n}; exit {n}", n, kind=ScriptKind.VERIFY) for n in range(1, 61)]

    reports = region.together(orders)

    assert [(report.state, report.exit_code) for report in reports] == [(FINISHED, n) for n in range(1, 61)]
    assert {region.place.file(f"many-{n}").read_text() for n in range(1, 61)} == {"ran\n"}
    sizes = [len(call.parameters["InstanceIds"]) for call in region.sends(since)]
    named = [one for call in region.sends(since) for one in call.parameters["InstanceIds"]]
    assert sorted(named) == sorted(instance_id(n) for n in range(1, 61))
    assert (max(sizes) <= 50, len(sizes) < 12) == (True, True)
    # A naive loop needs a send and some three questions for each.
    assert len(region.server.calls) - all_before < 4 * 60 / 2


def test_an_instance_that_ssm_refuses_is_found_and_the_others_run(region: Region) -> None:
    since = len(region.sends())
    orders = [order("echo here", number) for number in (1, 2, 3, 99, 5, 6, 7)]

    reports = region.together(orders)

    states = [(report.state, report.not_started) for report in reports]
    assert states == [(FINISHED, None)] * 3 + [(NOT_STARTED, NotStarted.UNREACHABLE)] + [(FINISHED, None)] * 3
    taken = [one for call in region.sends(since) if call.answered == "ok" for one in call.parameters["InstanceIds"]]
    assert sorted(taken) == sorted(instance_id(number) for number in (1, 2, 3, 5, 6, 7))


def test_each_invocation_is_judged_by_itself(region: Region) -> None:
    region.server.faults.refused = {instance_id(number): "Undeliverable" for number in (1, 2, 3, 4)}

    reports = region.together([order("echo here", number) for number in range(1, 6)])

    assert [report.state for report in reports] == [NOT_STARTED] * 4 + [FINISHED]


def test_a_lost_answer_for_many_is_lost_for_each(region: Region) -> None:
    since = len(region.sends())
    region.server.faults.next("SendCommand", Outcome.CUT_AFTER)

    reports = region.together([order("true", number) for number in range(1, 4)])

    lost = [report for report in reports if report.state is ReportState.LOST]
    assert len(lost) == len(region.sends(since)[0].parameters["InstanceIds"])
    assert {report.state for report in reports} <= {FINISHED, ReportState.LOST}


def test_two_looks_at_one_node_never_share_a_command(region: Region) -> None:
    reports = region.together([order(f"exit {code}", 12) for code in (3, 4)])

    assert [report.exit_code for report in reports] == [3, 4]


def test_scripts_that_act_are_commands_of_their_own(region: Region) -> None:
    since = len(region.sends())

    # One machine plays both nodes here, so the second may be refused by the first; both were sent.
    region.together([acting("true", 13), acting("true", 14)])

    sends = region.sends(since)
    assert [len(call.parameters["InstanceIds"]) for call in sends] == [1, 1]
    assert [call.parameters["TimeoutSeconds"] for call in sends] == [30, 30]
    assert not any("MaxErrors" in call.parameters for call in sends)


def test_a_script_that_is_too_long_for_a_command_is_refused_and_not_cut(region: Region) -> None:
    since = len(region.sends())
    noise = region.place.mounts.run(["sh", "-c", "head -c 60000 /dev/urandom | base64 -w0"]).stdout

    report = region.run(order(f": {noise}"))

    assert (report.state, report.not_started, len(region.sends(since))) == (NOT_STARTED, NotStarted.REFUSED, 0)
    assert "SSM, which takes 60000" in report.reason


def test_looks_whose_scripts_are_too_long_together_go_in_several_commands(region: Region) -> None:
    since = len(region.sends())
    noise = region.place.mounts.run(["sh", "-c", "head -c 22000 /dev/urandom | base64 -w0"]).stdout

    reports = region.together([order(f": {noise[n:]}; exit {n}", n) for n in range(1, 5)])

    assert [report.exit_code for report in reports] == [1, 2, 3, 4]
    assert max(len(call.parameters["Parameters"]["commands"][0]) for call in region.sends(since)) <= 60_000


def test_nodes_check_works_for_nodes_of_aws(region: Region) -> None:
    executors = ExecutorsByKind(local=region.executor, ssh=region.executor, ssm=lambda: region.executor)
    endpoints = [endpoint(1), endpoint(99)]

    rows = list(check_nodes(endpoints, executors, clock=RealClock(), service_id="tests"))

    assert [(row.node, row.failed) for row in rows] == [("gpu-01", None), ("gpu-99", "reached")]
    assert "uid 0" in rows[0].why
    assert "SSM does not know the instance" in rows[1].why


def test_output_goes_to_whoever_asked(region: Region) -> None:
    ears = [Heard() for _ in range(4)]

    for number, heard in enumerate(ears, 1):
        region.run(order(f"echo {number}", number), heard)

    assert [heard.text() for heard in ears] == [b"1\n", b"2\n", b"3\n", b"4\n"]
