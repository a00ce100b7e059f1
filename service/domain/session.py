"""Who has signed in to the pages, and how long that lasts."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from service.domain.login import Identity
from service.domain.person import Permission, Person, Role, Token

#: A session ends so long after it was opened, whatever is done in it (OWASP ASVS 5.0, 7.3.2).
LONGEST: Final = timedelta(hours=12)
#: It ends earlier when nothing is asked for so long (OWASP ASVS 5.0, 7.3.1).
LONGEST_IDLE: Final = timedelta(hours=1)


@dataclass(frozen=True)
class Session:
    """A browser in which somebody has shown a token, or for whom a provider or a proxy has vouched."""

    id: str
    #: Of the cookie's value, which is never stored.
    sha256: str
    #: A token as it is stored now, and not as it was when the session was opened; or who was vouched for.
    known: Token | Identity
    opened_at: datetime
    #: When it was last used, to the minute.
    seen_at: datetime
    #: Of an identity: what its groups may do. A token has roles of its own.
    roles: frozenset[Role] = frozenset()

    @property
    def person(self) -> Person:
        """Return whose session it is, with the roles that he has now."""
        match self.known:
            case Token():
                return self.known.owner
            case Identity():
                return Person(self.known.person, self.roles, groups=self.known.groups)

    @property
    def opened_with(self) -> dict[str, object]:
        """Return with what it was opened, for the record."""
        match self.known:
            case Token():
                return {"token": self.known.name}
            case Identity(by=by, issuer="", groups=groups):
                return {"by": by, "groups": sorted(groups), "roles": sorted(self.roles)}
            case Identity(by=by, issuer=issuer, subject=subject, groups=groups):
                named = {"by": by, "issuer": issuer, "subject": subject}
                return {**named, "groups": sorted(groups), "roles": sorted(self.roles)}

    def over(self, now: datetime) -> str:
        """Return why the session has ended, in words; empty as long as it holds."""
        if isinstance(self.known, Token) and self.known.revoked_at is not None:
            return "its token was revoked"
        if isinstance(self.known, Token) and not self.known.valid(now):
            return "its token has expired"
        if not self.person.may(Permission.READ):
            return "its token may no longer read" if isinstance(self.known, Token) else "no group of his has a role"
        if now - self.opened_at >= LONGEST:
            return "it had lasted 12 hours"
        if now - self.seen_at >= LONGEST_IDLE:
            return "it was not used for an hour"
        return ""
