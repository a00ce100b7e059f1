"""Lets act only who is still known when what he asked for is recorded.

Whoever asks is looked up before his request is read. Until the record has a turn for it seconds may go by, and his
token may be revoked or his session ended meanwhile.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from service.app.ports import Reader, Store, Transaction
from service.app.service import Service
from service.app.sessions import insist_on_session
from service.app.tokens import insist_on_token
from service.domain.audit import AuditEvent
from service.domain.session import Session

T = TypeVar("T")


@dataclass(frozen=True)
class _Asking:
    """A store that asks before each change, in its transaction."""

    store: Store
    insist: Callable[[Reader], None]

    def write(self, change: Callable[[Transaction], T]) -> T:
        """Write what a store writes, or raise what `insist` raises with nothing changed."""

        def asked(transaction: Transaction) -> T:
            self.insist(transaction)
            return change(transaction)

        return self.store.write(asked)

    def read(self, look: Callable[[Reader], T]) -> T:
        """Read what the store reads."""
        return self.store.read(look)

    def audit_events(self) -> Iterator[AuditEvent]:
        """Yield what the store yields."""
        return self.store.audit_events()

    def close(self) -> None:
        """Close the store."""
        self.store.close()


def while_token_holds(service: Service, digest: str) -> Service:
    """Return the service for who has shown the token of this digest; its writes raise Unauthenticated without it."""
    return replace(service, store=_Asking(service.store, lambda reader: insist_on_token(service, reader, digest)))


def while_session_holds(service: Service, session: Session) -> Service:
    """Return the service for who has signed in; its writes raise Unauthenticated once the session has ended."""
    return replace(service, store=_Asking(service.store, lambda reader: insist_on_session(service, reader, session)))
