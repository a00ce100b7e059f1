"""Notices go to a real mail server: by STARTTLS and login, readable for any reader of mail, and never in clear."""

import logging
from collections.abc import Iterator
from email import policy
from pathlib import Path

import pytest

from lab.kube.kubeconfig import make_certificate
from service.app.notice_ports import Outgoing
from service.domain.errors import NotTold
from service.domain.notice import Receiver, ReceiverKind
from service.domain.notice_words import message
from service.notify.chat import ChatSender
from tests.notify.mail_server import PASSWORD, USER, Mailbox, serving_mail
from tests.unit.test_notice_words import BASE, NOW, gate, gates

SAID = "reader of /data hängt <b>seit</b> 03:00\n.\nQUIT"
OPENED = Outgoing("n1.oncall", message(gates(gate(saw=SAID.splitlines())), base_url=BASE, now=NOW))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Give the certificate of the mail server and its key."""
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def trusted(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this machine believe the certificate."""
    monkeypatch.setenv("SSL_CERT_FILE", str(files[0]))


@pytest.fixture
def box(files: tuple[Path, Path]) -> Iterator[Mailbox]:
    """Give the mailbox of a server."""
    with serving_mail(*files) as mailbox:
        yield mailbox


def tell(folder: Path, port: int, password: str = PASSWORD) -> None:
    """Send the notice of a gate by mail."""
    words = f"mailtos://{USER}:{password}@example.net:{port}?smtp=127.0.0.1&mode=starttls"
    (folder / "address").write_text(f"{words}&from=unstick@example.net&to=gpu-oncall@example.net\n")
    oncall = Receiver("oncall", ReceiverKind.CHAT, url_file=str(folder / "address"))
    ChatSender().tell(oncall, OPENED, now=NOW)


@pytest.mark.usefixtures("trusted")
def test_a_mail_comes_by_tls_and_login_and_says_all_that_an_answer_rests_on(tmp_path: Path, box: Mailbox) -> None:
    tell(tmp_path, box.port)

    (mail,) = box.mails
    part = mail.get_body(("plain",))
    assert part is not None
    assert box.logins == [(True, True)]
    assert (mail["Subject"], mail["From"].addresses[0].addr_spec) == (OPENED.message.title, "unstick@example.net")
    assert [one.get_content_type() for one in mail.walk() if not one.is_multipart()] == ["text/plain"]
    assert part.get_content().split() == OPENED.message.text.split()
    for words in (
        f"{BASE}/gates/g1",
        "Who may answer: an approver",
        "Or type: unstick approve g1",
        "reader of /data hängt",
    ):
        assert words in part.get_content()
    assert not any(one in mail.as_bytes(policy=policy.SMTP).decode("latin-1") for one in (PASSWORD, "smtp="))


@pytest.mark.usefixtures("trusted")
def test_a_server_that_is_busy_gets_it_at_the_next_try(tmp_path: Path, box: Mailbox) -> None:
    box.refusals = ["451 4.3.0 try again later"]

    with pytest.raises(NotTold) as busy:
        tell(tmp_path, box.port)
    tell(tmp_path, box.port)

    assert (str(busy.value), busy.value.final, len(box.mails)) == (
        "The chat service has not taken it: it answered 451.",
        False,
        1,
    )


@pytest.mark.usefixtures("trusted")
def test_s16_a_login_that_is_refused_is_told_by_its_status_and_the_password_never(
    tmp_path: Path, box: Mailbox, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(NotTold) as refusal:
        tell(tmp_path, box.port, "s3cr3t-wrong")

    assert (str(refusal.value), box.mails) == ("The chat service has not taken it: it answered 535.", [])
    assert {*box.logins} == {(True, False)}
    assert "s3cr3t" not in caplog.text


@pytest.mark.usefixtures("trusted")
def test_a_server_that_is_gone_or_has_no_tls_is_shown_nothing(tmp_path: Path, files: tuple[Path, Path]) -> None:
    with serving_mail(*files, tls=False) as plain, pytest.raises(NotTold) as refusal:
        tell(tmp_path, plain.port)
    with pytest.raises(NotTold) as gone:
        tell(tmp_path, plain.port)

    assert (plain.logins, plain.mails) == ([], [])
    assert {str(one.value) for one in (refusal, gone)} == {"The chat service has not taken it, or cannot be reached."}


def test_a_server_that_nobody_vouches_for_is_shown_nothing(tmp_path: Path, box: Mailbox) -> None:
    with pytest.raises(NotTold):
        tell(tmp_path, box.port)

    assert (box.logins, box.mails) == ([], [])
