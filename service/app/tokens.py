"""API tokens: made on the host, shown once, stored as a digest."""

import secrets
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count
from typing import Final, Literal

from service.app.ports import Reader, Transaction
from service.app.service import Service
from service.domain.audit import Fact
from service.domain.errors import Conflict, InvalidInput, NotFound, Unauthenticated, Unavailable
from service.domain.login import fault_of_name
from service.domain.person import Person, Role, Token
from service.domain.person_name import person_key
from service.domain.reach import EVERYTHING, Reach, is_glob
from service.domain.script import sha256
from service.domain.shown_text import shown_moment

#: A recognisable beginning, so that a token in a log or a repository is found by scanners.
PREFIX: Final = "unstick_"
#: When a token ends for which nothing else was said, and the longest that may be said.
USUAL: Final = timedelta(days=90)
LONGEST: Final = timedelta(days=365)
#: One answer for every cause.
NOT_VALID: Final = "The token is not valid."
#: Said instead of an end, of a token that delivers alerts and can do nothing else.
NEVER: Final[Literal["never"]] = "never"


def create_token(
    service: Service,
    name: str,
    *,
    roles: frozenset[Role],
    person: str,
    by: str,
    expires: datetime | Literal["never"] | None = None,
    reach: Reach = EVERYTHING,
) -> str:
    """Add a token and return it; it cannot be read again. `expires` as in `token_end`.

    Raises Conflict when the name is taken, with the words that make another one for the same person,
    and InvalidInput for a token without a role, a name or a future, or with a reach that is none.
    """
    if not roles:
        raise InvalidInput("A token needs a role.", f"The roles are: {', '.join(Role)}.")
    if not name.strip() or not person.strip():
        raise InvalidInput("A token needs a name and a person.", "Give --name.")
    _refuse_reach(reach, roles)
    text = PREFIX + secrets.token_urlsafe(32)
    now = service.clock.now()
    end = token_end(roles, expires, now=now)
    token = Token(service.clock.new_id(), name, person, roles, sha256(text), now, end, reach=reach)

    def record(transaction: Transaction) -> None:
        known = transaction.tokens()
        _refuse_taken(known, token)
        _refuse_lookalike(known, token)
        _refuse_person(token.person)
        transaction.add_token(token)
        about = f"token/{token.id}"
        transaction.append(Fact("token.created", about, by, on_behalf_of=person, body=_body(token)))

    service.store.write(record)
    return text


def _body(token: Token) -> dict[str, object]:
    return {
        "name": token.name,
        "person": token.person,
        "roles": sorted(token.roles),
        "runbooks": list(token.reach.runbooks),
        "pools": list(token.reach.pools),
        "expires_at": token.expires_at.isoformat() if token.expires_at else None,
    }


def token_end(roles: frozenset[Role], expires: datetime | Literal["never"] | None, *, now: datetime) -> datetime | None:
    """Return when a token ends, None for never.

    Without a word it is after 90 days, or after 365 where it only delivers alerts: a monitor that is refused one day
    is missed by nobody. Raises InvalidInput for an end that is past or more than 365 days away, and for `never` of a
    token that can do anything but deliver.
    """
    only_delivers = roles == {Role.SOURCE}
    if expires == NEVER:
        if not only_delivers:
            reason = "Only a token that delivers alerts and does nothing else may have no end."
            raise InvalidInput(reason, f"Give --expires with a time, at most {LONGEST.days}d.")
        return None
    if expires is None:
        return now + (LONGEST if only_delivers else USUAL)
    if expires <= now:
        reason = f"The token would have ended at {shown_moment(expires)}, and it is {shown_moment(now)}."
        raise InvalidInput(reason, "Give a time that is to come, such as 12h or 90d, or none.")
    if expires > now + LONGEST:
        reason = f"The token would end at {shown_moment(expires)}, in more than {LONGEST.days} days."
        raise InvalidInput(reason, f"Give at most {LONGEST.days}d, and make another one then.")
    return expires


def _refuse_reach(reach: Reach, roles: frozenset[Role]) -> None:
    """Raise InvalidInput for a reach with names that are none, and for one of a token that only delivers."""
    for text in (*reach.runbooks, *reach.pools):
        if not is_glob(text):
            raise InvalidInput(f"{text!a} names no runbook and no pool.", "`*` is any text, `?` one character.")
    if reach != EVERYTHING and roles == {Role.SOURCE}:
        reason = "A token that delivers alerts has no reach: rules.yaml says what a source may start, and where."
        raise InvalidInput(reason, "Leave --runbook and --pool out.")


def _refuse_taken(tokens: Sequence[Token], token: Token) -> None:
    """Raise Conflict when the name is taken: most often by a token that was lost, and whose person needs another."""
    names = {one.name for one in tokens}
    earlier = next((one for one in tokens if one.name == token.name), None)
    if earlier is None:
        return
    free = next(name for number in count(2) if (name := f"{token.name}-{number}") not in names)
    roles = " ".join([*(f"--role {role}" for role in sorted(token.roles)), *_reach_options(token.reach)])
    another = f"unstick token create --name {shlex.quote(free)} --person {shlex.quote(earlier.person)} {roles}"
    raise Conflict(
        f"There is a token {token.name} already, of the person {earlier.person}; a name is taken once.",
        f"If it is lost, end it: unstick token revoke {shlex.quote(token.name)}. Another one of that person: {another}",
    )


def _refuse_lookalike(tokens: Sequence[Token], token: Token) -> None:
    """Raise Conflict when its person is a known one, written otherwise: at a gate both would be one person."""
    alike = (one.person for one in tokens if person_key(one.person) == person_key(token.person))
    known = next((person for person in alike if person != token.person), None)
    if known is not None and all(one.person != token.person for one in tokens):
        raise Conflict(
            f"The person {token.person} is {known}, written otherwise; both count as one person.",
            f"Write it as it is known: --person {shlex.quote(known)}",
        )


def _refuse_person(person: str) -> None:
    """Raise InvalidInput for what no person can be called: the service's own name, a group's, what nobody can read."""
    fault = fault_of_name(person)
    if fault:
        raise InvalidInput(f"The name of the person {fault}.", "Give another one: --person ann")


def _reach_options(reach: Reach) -> Iterator[str]:
    yield from (f"--runbook {shlex.quote(glob)}" for glob in reach.runbooks)
    yield from (f"--pool {shlex.quote(glob)}" for glob in reach.pools)


def revoke_token(service: Service, token_id: str, *, by: str) -> None:
    """Make a token useless from now on; NotFound."""

    def record(transaction: Transaction) -> None:
        found = [token for token in transaction.tokens() if token_id in (token.id, token.name)]
        if not found:
            raise NotFound(f"There is no token {token_id}.", "`unstick token list` lists them.")
        transaction.save_token(replace(found[0], revoked_at=service.clock.now()))
        transaction.append(Fact("token.revoked", f"token/{found[0].id}", by, body={"name": found[0].name}))

    service.store.write(record)


def authenticate(service: Service, text: str) -> Person:
    """Return the person of a token; Unauthenticated, with one answer for every cause."""
    token = valid_token(service, text)
    return token.owner


def valid_token(service: Service, text: str) -> Token:
    """Return the token that a text is, and note its use; errors as `authenticate`."""
    token = valid_tokens(service, [text]).get(text)
    if token is None:
        raise _not_valid()
    return token


def insist_on_token(service: Service, reader: Reader, digest: str) -> None:
    """Raise Unauthenticated when the token of this digest is not valid by now, with the one answer for every cause."""
    token = reader.token_by_sha256(digest)
    if token is None or not token.valid(service.clock.now()):
        raise _not_valid()


def _not_valid() -> Unauthenticated:
    return Unauthenticated(NOT_VALID, "Ask for a new one: `unstick token create`.")


def valid_tokens(service: Service, texts: Collection[str]) -> Mapping[str, Token]:
    """Return by their texts the tokens that are valid, looked up together, and note their use."""
    if not texts:
        return {}
    digests = {text: sha256(text) for text in texts}
    found = service.store.read(
        lambda reader: {text: reader.token_by_sha256(digest) for text, digest in digests.items()}
    )
    now = service.clock.now()
    valid = {text: token for text, token in found.items() if token is not None and token.valid(now)}
    unnoted = [
        digests[text]
        for text, token in valid.items()
        if token.last_used_at is None or now - token.last_used_at > timedelta(minutes=1)
    ]
    if unnoted:
        _note_use(service, unnoted, now=now)
    return valid


def _note_use(service: Service, digests: Sequence[str], *, now: datetime) -> None:
    """Write down when tokens were used, on what is stored now: one may have been revoked since it was read."""

    def record(transaction: Transaction) -> None:
        for digest in digests:
            token = transaction.token_by_sha256(digest)
            if token is not None:
                transaction.save_token(replace(token, last_used_at=now))

    # A record that cannot be written forbids actions, which fail by themselves; looking stays possible.
    with suppress(Unavailable):
        service.store.write(record)
