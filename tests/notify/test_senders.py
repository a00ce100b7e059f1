"""Messages go to real servers: signed, once each, nowhere else, and with no secret in what is told of a failure."""

import base64
import gzip
import json
import logging
import threading
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path

import pytest
import requests
from standardwebhooks.webhooks import Webhook

from service.app.notice_ports import Outgoing
from service.domain.errors import ConfigInvalid, NotTold
from service.domain.notice import Notice, NoticeKind, Receiver, ReceiverKind
from service.domain.notice_words import message, trial
from service.notify.chat import ChatSender
from service.notify.webhook import WebhookSender
from tests.notify.receiver import Taken, listening

NOW = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)
OLD, NEW = (f"whsec_{base64.b64encode(bytes([number]) * 32).decode()}" for number in (1, 2))
BASE = "https://unstick.example.net"
FACTS = {"by": "root", "reason": "@channel <!here> [x](https://evil.example) «é»", "resumed": False}
NOTICE = Notice("n1", NoticeKind.PAUSE, NOW, "k", FACTS)
PAUSED = Outgoing("n1.hook", message(NOTICE, base_url=BASE, now=NOW))
SECRET_PATH = "s3cr3t-path"
MEBI = 2**20


def hook(folder: Path, url: str, *secrets: str) -> Receiver:
    files = []
    for number, secret in enumerate(secrets or (OLD,)):
        file = folder / f"secret{number}"
        file.write_text(f"{secret}\n")
        files.append(str(file))
    return Receiver("hook", ReceiverKind.WEBHOOK, url=url, secret_files=tuple(files))


def chat(folder: Path, url: str) -> Receiver:
    (folder / "address").write_text(f"{url}\n")
    return Receiver("oncall", ReceiverKind.CHAT, url_file=str(folder / "address"))


def test_a_program_can_prove_who_sent_it_with_either_secret_of_a_change(tmp_path: Path) -> None:
    # The library that proves it knows no time but this one, and believes nothing that is older than five minutes.
    now = datetime.now(UTC).replace(microsecond=0)
    with listening(Taken()) as taken:
        WebhookSender().tell(hook(tmp_path, f"http://127.0.0.1:{taken.port}/in", NEW, OLD), PAUSED, now=now)

    (path, headers), body = taken.requests[0], taken.bodies[0]
    assert [Webhook(secret).verify(body, headers) for secret in (OLD, NEW)] == [json.loads(body)] * 2
    assert (path, headers["webhook-id"], headers["content-type"]) == ("/in", "n1.hook", "application/json")
    assert json.loads(body) == {
        "type": "notice.pause",
        "timestamp": NOW.isoformat(),
        "data": {
            "id": "n1",
            "kind": "pause",
            "at": NOW.isoformat(),
            "run_id": "",
            "runbook": "",
            "nodes": [],
            "pools": [],
            "by_alert": False,
            **FACTS,
            "message": {"title": PAUSED.message.title, "text": PAUSED.message.text},
            "link": f"{BASE}/gates",
        },
    }


@pytest.mark.parametrize(
    ("status", "reason", "final"),
    [
        (500, "It answered 500.", False),
        (302, "It answered 302, and no redirect is followed.", False),
        (410, "It answered 410: it wants nothing more.", True),
    ],
)
def test_a_program_that_does_not_take_it_is_told_by_its_status(
    tmp_path: Path, status: int, reason: str, final: bool
) -> None:
    with listening(Taken()) as other, listening(Taken(status)) as taken:
        taken.headers = {"location": f"http://127.0.0.1:{other.port}/"}
        with pytest.raises(NotTold) as refusal:
            WebhookSender().tell(hook(tmp_path, f"http://127.0.0.1:{taken.port}/{SECRET_PATH}"), PAUSED, now=NOW)

    assert (refusal.value.reason, refusal.value.final, other.bodies) == (reason, final, [])


def test_a_program_that_hangs_or_is_not_there_is_given_up_with_a_reason_that_tells_no_address(tmp_path: Path) -> None:
    with listening(Taken(hangs=threading.Event())) as taken:
        address = f"http://127.0.0.1:{taken.port}/{SECRET_PATH}"
        with pytest.raises(NotTold) as slow:
            WebhookSender(patience=0.2).tell(hook(tmp_path, address), PAUSED, now=NOW)
    with pytest.raises(NotTold) as gone:
        WebhookSender().tell(hook(tmp_path, address), PAUSED, now=NOW)

    assert str(slow.value) == "It did not answer within 0.2 seconds."
    assert str(gone.value) == "It cannot be reached (Connection refused)."


@pytest.mark.parametrize(
    ("url", "secret", "reason"),
    [
        ("http://hook.example.net/s3cr3t", OLD, "begins with http"),
        ("https://user:s3cr3t@hook.example.net/", OLD, "holds a user or a password"),
        ("file:///s3cr3t", OLD, "is no web address"),
        ("https://hook.example.net/", "whsec_s3cr3t", "none of Standard Webhooks"),
        ("https://hook.example.net/", "", "is empty"),
    ],
)
def test_an_address_or_secret_that_cannot_be_used_is_refused_and_not_shown(
    tmp_path: Path, url: str, secret: str, reason: str
) -> None:
    receiver = hook(tmp_path, url, secret)

    with pytest.raises(ConfigInvalid, match=reason) as checked:
        WebhookSender().check(receiver)
    with pytest.raises(NotTold, match=reason) as told:
        WebhookSender().tell(receiver, PAUSED, now=NOW)

    assert "s3cr3t" not in f"{checked.value}{told.value}"


def test_a_chat_gets_plain_text_in_which_nothing_is_obeyed(tmp_path: Path) -> None:
    with listening(Taken(200)) as taken:
        ChatSender().tell(chat(tmp_path, f"json://127.0.0.1:{taken.port}/{SECRET_PATH}"), PAUSED, now=NOW)

    sent = json.loads(taken.bodies[0])
    assert (sent["title"], sent["message"]) == (
        "Alerts were paused by root",
        (
            f"{BASE}/gates\n"
            "Reason: ＠channel ‹!here› ［x］(https:／／evil.example) «é»\n"
            "Alerts are recorded and held; runs that were started go on.\n"
            "Type: unstick resume --reason '...'"
        ),
    )


def test_s16_a_chat_that_refuses_or_leads_elsewhere_is_told_by_its_status_and_its_address_never(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    reasons = []
    with listening(Taken(200)) as other, listening(Taken()) as taken:
        taken.headers = {"location": f"http://127.0.0.1:{other.port}/"}
        for status in (500, 307):
            taken.status = status
            with pytest.raises(NotTold) as refusal:
                ChatSender().tell(chat(tmp_path, f"json://127.0.0.1:{taken.port}/{SECRET_PATH}"), PAUSED, now=NOW)
            reasons.append(str(refusal.value))

    assert reasons == [f"The chat service has not taken it: it answered {status}." for status in (500, 307)]
    assert other.bodies == []
    assert SECRET_PATH not in caplog.text


def test_a_chat_that_hangs_is_not_waited_for(tmp_path: Path) -> None:
    with listening(Taken(hangs=threading.Event())) as taken, pytest.raises(NotTold) as refusal:
        ChatSender(patience=0.2).tell(chat(tmp_path, f"json://127.0.0.1:{taken.port}/"), PAUSED, now=NOW)

    assert str(refusal.value) == "The chat service has not taken it, or cannot be reached."


def squeezed(size: int) -> bytes:
    """Return so many zeros as gzip: the smallest answer that is the largest."""
    return gzip.compress(bytes(size))


@pytest.mark.parametrize(
    ("headers", "body"),
    [({}, b"x" * 65536), ({"content-encoding": "gzip"}, squeezed(2**25)), ({"content-length": "9" * 12}, b"x" * 65536)],
)
def test_a_chat_whose_answer_has_no_end_fills_no_memory_and_has_taken_it_once(
    tmp_path: Path, headers: dict[str, str], body: bytes
) -> None:
    tracemalloc.start()
    try:
        with listening(Taken(200, headers, endless=body, times=4096)) as taken:
            ChatSender().tell(chat(tmp_path, f"json://127.0.0.1:{taken.port}/"), PAUSED, now=NOW)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert (len(taken.bodies), most < 64 * MEBI, taken.sent < 64 * MEBI) == (1, True, True)


def test_a_chat_that_refuses_or_leads_elsewhere_without_end_is_told_by_its_status(tmp_path: Path) -> None:
    reasons = []
    for status in (307, 500):
        taken = Taken(status, {"location": "/"}, endless=b"x" * 65536, times=4096)
        with listening(taken), pytest.raises(NotTold) as refusal:
            ChatSender().tell(chat(tmp_path, f"json://127.0.0.1:{taken.port}/"), PAUSED, now=NOW)
        reasons.append((str(refusal.value), taken.sent < 64 * MEBI))

    assert reasons == [(f"The chat service has not taken it: it answered {status}.", True) for status in (307, 500)]


def test_a_chat_that_trickles_its_answer_is_not_heard_to_its_end(tmp_path: Path) -> None:
    with listening(Taken(200, endless=b"x", times=3000, pause=0.02)) as taken:
        ChatSender(patience=0.3).tell(chat(tmp_path, f"json://127.0.0.1:{taken.port}/"), PAUSED, now=NOW)

    assert (len(taken.bodies), taken.sent < taken.times) == (1, True)


def test_nothing_but_chats_is_cut_off(tmp_path: Path) -> None:
    with listening(Taken(200, endless=b"x" * 65536, times=64)) as taken:
        ChatSender().check(chat(tmp_path, f"json://127.0.0.1:{taken.port}/"))
        body = requests.get(f"http://127.0.0.1:{taken.port}/", timeout=60).content

    assert len(body) == 4 * MEBI


def test_a_program_whose_answer_has_no_end_is_not_read(tmp_path: Path) -> None:
    with listening(Taken(200, endless=b"x" * 65536, times=4096)) as taken:
        WebhookSender().tell(hook(tmp_path, f"http://127.0.0.1:{taken.port}/"), PAUSED, now=NOW)

    assert (len(taken.bodies), taken.sent < 64 * MEBI) == (1, True)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("json://chat.example.net/s3cr3t", "is not one that goes by TLS. Write jsons://."),
        ("syslog://", "is not one that goes by TLS. Choose a service that is reached by TLS."),
        ("jsons://chat.example.net/s3cr3t?verify=no", "has verify=no. Leave it out: anybody could answer."),
        ("file:///etc/s3cr3t", "is no address that apprise knows."),
        ("https://chat.example.net/s3cr3t.yaml", "is no address that apprise knows."),
    ],
)
def test_an_address_that_is_no_chat_by_tls_is_refused_and_not_shown(tmp_path: Path, url: str, reason: str) -> None:
    with pytest.raises(ConfigInvalid) as refusal:
        ChatSender().check(chat(tmp_path, url))

    assert reason in str(refusal.value)
    assert "s3cr3t" not in str(refusal.value)


@pytest.mark.parametrize(
    "url",
    [
        "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/",
        "discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js",
        "mailtos://user:pass@example.net?to=oncall@example.net",
        "workflows://prod-1.example.net:443/abc/def/",
        "ntfys://topic",
    ],
)
def test_an_address_of_a_chat_mail_or_pager_can_be_used(tmp_path: Path, url: str) -> None:
    ChatSender().check(chat(tmp_path, url))


def test_a_trial_is_told_as_one(tmp_path: Path) -> None:
    with listening(Taken()) as taken:
        words = trial("hook", base_url=BASE, now=NOW)
        WebhookSender().tell(hook(tmp_path, f"http://127.0.0.1:{taken.port}/"), Outgoing("t.hook", words), now=NOW)

    assert json.loads(taken.bodies[0])["type"] == "notice.trial"
