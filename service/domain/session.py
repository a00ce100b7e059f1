"""Who has signed in to the pages, and how long that lasts."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from service.domain.person import Permission, Person, Token

#: A session ends so long after it was opened, whatever is done in it (OWASP ASVS 5.0, 7.3.2).
LONGEST: Final = timedelta(hours=12)
#: It ends earlier when nothing is asked for so long (OWASP ASVS 5.0, 7.3.1).
LONGEST_IDLE: Final = timedelta(hours=1)


@dataclass(frozen=True)
class Session:
    """A browser that has shown a token. It can do what the token can, as long as the token can."""

    id: str
    #: Of the cookie's value, which is never stored.
    sha256: str
    #: As it is stored now, not as it was when the session was opened.
    token: Token
    opened_at: datetime
    #: When it was last used, to the minute.
    seen_at: datetime

    @property
    def person(self) -> Person:
        """Return whose session it is, with the roles that the token has now."""
        return Person(self.token.person, self.token.roles)

    def over(self, now: datetime) -> str:
        """Return why the session has ended, in words; empty as long as it holds."""
        if self.token.revoked_at is not None:
            return "its token was revoked"
        if not self.token.valid(now):
            return "its token has expired"
        if not self.person.may(Permission.READ):
            return "its token may no longer read"
        if now - self.opened_at >= LONGEST:
            return "it had lasted 12 hours"
        if now - self.seen_at >= LONGEST_IDLE:
            return "it was not used for an hour"
        return ""
