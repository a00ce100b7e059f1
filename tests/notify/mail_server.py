"""A real mail server (aiosmtpd) on loopback, with STARTTLS and a login, that takes mail or refuses it as told."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

USER, PASSWORD = "unstick", "s3cr3t-mail"


@dataclass
class Mailbox:
    """What came in, and what is answered."""

    #: Answers to the next recipients, before any is taken.
    refusals: list[str] = field(default_factory=list)
    mails: list[EmailMessage] = field(default_factory=list)
    #: Whether each login came by TLS, and with the right password.
    logins: list[tuple[bool, bool]] = field(default_factory=list)
    port: int = 0

    async def handle_RCPT(  # noqa: N802
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        """Take a recipient, or answer what was told."""
        if self.refusals:
            return self.refusals.pop(0)
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802
        """Take a mail."""
        content = envelope.content
        assert isinstance(content, bytes)
        mail = message_from_bytes(content, policy=policy.default)
        assert (mail.defects, envelope.rcpt_tos) == ([], [mail["To"].addresses[0].addr_spec])
        self.mails.append(mail)
        return "250 taken"

    def login(self, _server: SMTP, session: Session, _envelope: Envelope, _mechanism: str, given: Any) -> AuthResult:
        """Let in whoever has the password."""
        right = isinstance(given, LoginPassword) and (given.login, given.password) == (
            USER.encode(),
            PASSWORD.encode(),
        )
        self.logins.append((session.ssl is not None, right))
        return AuthResult(success=right, handled=False)


@contextmanager
def serving_mail(certificate: Path, key: Path, *, tls: bool = True) -> Iterator[Mailbox]:
    """Serve on loopback; without `tls` it offers no STARTTLS."""
    box = Mailbox()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    loop = asyncio.new_event_loop()

    def meet() -> SMTP:
        return SMTP(
            box,
            hostname="mail.test",
            tls_context=context if tls else None,
            require_starttls=tls,
            auth_required=tls,
            authenticator=box.login,
            loop=loop,
        )

    with socket.create_server(("127.0.0.1", 0)) as listener:
        box.port = listener.getsockname()[1]
        server = loop.run_until_complete(loop.create_server(meet, sock=listener))
        thread = threading.Thread(target=loop.run_forever, name="mail")
        thread.start()
        try:
            yield box
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            server.close()
            loop.run_until_complete(server.wait_closed())
            loop.close()
