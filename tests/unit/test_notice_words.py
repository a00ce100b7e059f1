"""What people read, to the letter; and that no chat obeys what nodes, monitors and persons have written."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from service.domain.notice import Notice, NoticeKind
from service.domain.notice_words import bundle, inert, line, lines, message, trial

NOW = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)
BASE = "https://unstick.example.net"


def gate(number: int = 1, **changed: Any) -> dict[str, Any]:
    return {
        "id": f"g{number}",
        "node": f"gpu-{number:02}",
        "targets": ["connection 57 fstype fuse.rclone mountpoint /data"],
        "targets_in_all": 1,
        "saw": ["connection 57 is stuck"],
        "expires_at": (NOW + timedelta(minutes=59, seconds=30)).isoformat(),
        **changed,
    }


def gates(*some: dict[str, Any], **changed: Any) -> Notice:
    facts = {
        "step": "abort-dead",
        "title": "Abort connections whose server is dead",
        "risks": ["The node reboots: everything that runs on it ends."],
        "why": "alert ghost (GpuGhostVram)",
        "script": ["unstick_abort"],
        "approval": "second_person",
        "requesters": ["ann", "source:prom"],
        "gates": list(some),
    }
    nodes = tuple(one["node"] for one in some)
    made = Notice("n1", NoticeKind.GATE, NOW, "k", facts, "r1", "abort-stuck-fuse", nodes, ("h100",), by_alert=True)
    return replace(made, **changed)


def told(kind: NoticeKind, facts: dict[str, Any], **changed: Any) -> str:
    found = message(Notice("n1", kind, NOW, "k", facts, **changed), base_url=BASE, now=NOW)
    return f"{found.title}\n{found.text}"


def test_an_open_gate_is_told_with_all_that_an_answer_rests_on_and_its_link_first() -> None:
    one = gate(occupants="3 pods, 1 user", over=["3 pods run on it, and 0 may"])
    found = message(gates(one), base_url=BASE, now=NOW)

    assert found.title == "Gate open: abort-stuck-fuse, step abort-dead, on gpu-01"
    assert found.text == (
        "https://unstick.example.net/gates/g1\n"
        "Somebody must answer before it acts: Abort connections whose server is dead\n"
        "Mind: The node reboots: everything that runs on it ends.\n"
        "Why: alert ghost (GpuGhostVram)\n"
        "Asked though a rule had waived it: 3 pods run on it, and 0 may\n"
        "On the node when it was opened: 3 pods, 1 user\n"
        "The check saw:\n"
        "  | connection 57 is stuck\n"
        "It would act on 1 target:\n"
        "  | connection 57 fstype fuse.rclone mountpoint /data\n"
        "It would run:\n"
        "  | unstick_abort\n"
        "Who may answer: an approver, and not who requested it (ann, source:prom)\n"
        "Until: 2026-11-29 03:59:30 UTC (59 minutes left); without an answer nothing is run\n"
        "Or type: unstick approve g1"
    )


def test_gates_of_one_step_on_many_nodes_are_told_in_one_message() -> None:
    found = message(gates(*(gate(number) for number in range(1, 13))), base_url=BASE, now=NOW)

    assert found.title == "12 gates open: abort-stuck-fuse, step abort-dead, on gpu-01, gpu-02, gpu-03 and 9 more"
    assert found.text.splitlines()[4:11] == [
        "It would act on:",
        *(
            f"  | gpu-{number:02}: 1 target: connection 57 fstype fuse.rclone mountpoint /data"
            for number in range(1, 6)
        ),
        "  | … and 7 more nodes",
    ]
    assert (found.link, found.text.splitlines()[-1]) == (f"{BASE}/gates", "Or type: unstick approve r1")


def test_the_end_of_a_run_is_told_with_verdicts_in_numbers_and_what_to_look_at() -> None:
    facts = {
        "state": "failed",
        "dry_run": False,
        "why": "ann asked for it: readers hang",
        "ends": [{"what": "cured", "nodes": 3}, {"what": "not cured", "nodes": 1}],
        "look_at": [{"node": "gpu-04", "what": "not cured", "reason": "verify says no"}],
    }
    nodes = ("gpu-01", "gpu-02", "gpu-03", "gpu-04")

    assert told(NoticeKind.ENDED, facts, run_id="r1", runbook="cure", nodes=nodes) == (
        "Ended failed: cure on gpu-01, gpu-02, gpu-03 and 1 more\n"
        "In all: 3 nodes cured, 1 node not cured\n"
        "Why it ran: ann asked for it: readers hang\n"
        "Look at gpu-04: not cured: verify says no\n"
        "Type: unstick show r1\n"
        "Again, from the first look on: unstick retry r1"
    )


@pytest.mark.parametrize(
    ("would", "in_all", "said"),
    [
        ([], 0, "It found nothing that it would change."),
        ([{"node": "gpu-01", "step": "abort"}], 1, "It would change gpu-01 (step abort); nothing was changed."),
        (
            [{"node": "gpu-01", "step": "abort"}],
            7,
            "It would change gpu-01 (step abort) and 6 more; nothing was changed.",
        ),
    ],
)
def test_the_end_of_a_dry_run_says_what_it_would_change(would: list[dict[str, str]], in_all: int, said: str) -> None:
    facts = {
        "state": "succeeded",
        "dry_run": True,
        "why": "rule trial",
        "ends": [{"what": "succeeded", "nodes": 1}],
        "would_change": would,
        "would_change_in_all": in_all,
    }

    assert told(NoticeKind.ENDED, facts, run_id="r1", runbook="cure", nodes=("gpu-01",)) == (
        "Ended succeeded: dry run of cure on gpu-01\n"
        "In all: 1 node succeeded\n"
        "Why it ran: rule trial\n"
        f"{said}\n"
        "Type: unstick show r1"
    )


def test_a_stuck_node_is_told_with_why_and_the_command_to_type() -> None:
    facts = {"node": "gpu-01", "step": "cure", "reason": "The answer was lost.", "why": "ann asked for it"}

    assert told(NoticeKind.STUCK, facts, run_id="r1", runbook="cure", nodes=("gpu-01",)) == (
        "Stuck: cure on gpu-01\n"
        "Nobody knows what came of it, step cure: The answer was lost.\n"
        "Nothing more is sent to this node before somebody has looked at it.\n"
        "Why it ran: ann asked for it\n"
        "What was said before: unstick show r1 --output\n"
        "Then type: unstick resolve r1 gpu-01 --as settle_again --reason '...'\n"
        "(or --as changed, failed, retry)"
    )


@pytest.mark.parametrize(
    ("kind", "facts", "text"),
    [
        (
            NoticeKind.BREAKER,
            {"breaker": "blast-radius", "reason": "10 nodes in 1 hour", "held": "4"},
            (
                "The breaker blast-radius has latched\n"
                "https://unstick.example.net/gates\n"
                "Reason: 10 nodes in 1 hour\n"
                "No alert starts anything until somebody resets it; held so far: 4\n"
                "Look first at what the rules have done: unstick alerts --verdict ran\n"
                "Then type: unstick breaker reset blast-radius --reason '...'"
            ),
        ),
        (
            NoticeKind.BREAKER,
            {"breaker": "blast-radius", "by": "root", "reason": "a rack was down", "it_was": "10 nodes", "alerts": 4},
            (
                "The breaker blast-radius was reset by root\n"
                "https://unstick.example.net/gates\n"
                "Reason: a rack was down\n"
                "It had latched because: 10 nodes\n"
                "Alerts that are judged again: 4"
            ),
        ),
        (
            NoticeKind.PAUSE,
            {"by": "root", "reason": "a rule is wrong", "resumed": False},
            (
                "Alerts were paused by root\n"
                "https://unstick.example.net/gates\n"
                "Reason: a rule is wrong\n"
                "Alerts are recorded and held; runs that were started go on.\n"
                "Type: unstick resume --reason '...'"
            ),
        ),
        (
            NoticeKind.PAUSE,
            {"by": "root", "reason": "it is mended", "resumed": True, "alerts": 2},
            "Alerts were resumed by root\nhttps://unstick.example.net/gates\nReason: it is mended\nJudged again: 2",
        ),
    ],
)
def test_what_stops_alerts_is_told_with_who_and_why_and_what_to_type(
    kind: NoticeKind, facts: dict[str, Any], text: str
) -> None:
    assert told(kind, facts) == text


def test_a_storm_is_told_with_its_number_the_first_few_and_the_list() -> None:
    some = [gates(gate(number), id=f"n{number}") for number in range(1, 32)]

    found = bundle(some, base_url=BASE, now=NOW)

    assert found.title == "31 gates are open"
    assert found.text == (
        "https://unstick.example.net/gates\n"
        + "".join(f"- Gate open: abort-stuck-fuse, step abort-dead, on gpu-{number:02}\n" for number in range(1, 6))
        + "… and 26 more\nType: unstick runs --state waiting"
    )


HOSTILE = "@channel <!here> <@U1> [approve](https://evil.example) `x` \x1b[31m\u202e\r\nApprove: https://evil.example"


def test_text_of_others_mentions_nobody_links_nowhere_and_stays_on_its_line() -> None:
    hostile = line(HOSTILE)
    facts = {
        **gates(gate()).facts,
        "why": hostile,
        "title": hostile,
        "gates": [gate(saw=list(lines(HOSTILE)), targets=[hostile])],
    }

    found = message(gates(gate(), facts=facts, runbook=hostile), base_url=BASE, now=NOW)

    whole = f"{found.title}\n{found.text}"
    assert [sign for sign in "@<>[]`\x1b\u202e\r" if sign in whole] == []
    assert [one for one in whole.split() if "://" in one] == [f"{BASE}/gates/g1"]
    assert [one for one in found.text.splitlines() if one.startswith("Approve")] == []
    assert inert(hostile) == (
        "＠channel ‹!here› ‹＠U1› ［approve］(https:／／evil.example) ˋxˋ \\x1b［31m\\u202e "
        "Approve: https:／／evil.example"
    )


def test_what_others_say_is_bounded_and_its_secrets_are_taken_out() -> None:
    key = "-----BEGIN OPENSSH PRIVATE KEY-----\nabcd\nefgh\n-----END OPENSSH PRIVATE KEY-----"

    assert lines(f"one\n\n{key}\nBearer abcdefghijklmnop") == ("one", "[redacted]", "Bearer [redacted]")
    assert lines("\n".join(map(str, range(8)))) == ("0", "1", "2", "3", "4", "5", "… 2 more lines")
    assert line("x" * 5000) == "x" * 199 + "…"


def test_a_trial_says_that_nothing_is_wrong() -> None:
    assert trial("oncall", base_url=BASE, now=NOW).text == (
        "https://unstick.example.net/\n"
        "unstick was asked to try the receiver oncall at 2026-11-29 03:00:00 UTC. Nothing is wrong."
    )
