"""Which account of a provider a person is: bound at the first signing in, and by nobody but an admin undone.

Requester and approver are compared by name. One human with two accounts, or with one whose name he can change, would
be two persons; two accounts of one name would be one. So account and name hold each other.
"""

import shlex
from collections.abc import Iterable

from service.app.ports import Transaction
from service.app.service import Service
from service.domain.audit import Fact
from service.domain.errors import NotFound, Unauthenticated
from service.domain.login import Identity, KnownIdentity, VouchedBy, fault_of_name
from service.domain.person_name import person_key


def refuse_name(identity: Identity) -> None:
    """Raise Unauthenticated for a name that nobody can have."""
    fault = fault_of_name(identity.person)
    if fault:
        raise Unauthenticated(
            f"The name that you come with {fault}.", "Ask whoever keeps config/login.yaml which name it should be."
        )


def bind(transaction: Transaction, identity: Identity) -> None:
    """Hold a person to his account from now on; Unauthenticated for another account, or another name, than before.

    A proxy has no accounts: it says names alone, and these are compared with all others.
    """
    known = transaction.known_identities()
    if identity.by is VouchedBy.OIDC:
        before = next((one for one in known if (one.issuer, one.subject) == (identity.issuer, identity.subject)), None)
        if before is not None and before.person == identity.person:
            return
        if before is not None:
            raise _refused(f"Your account was {before.person} before, and says now {identity.person}.", before.person)
        same = next((one for one in known if person_key(one.person) == person_key(identity.person)), None)
        if same is not None:
            raise _refused(f"{identity.person} is another account already.", same.person)
    _refuse_lookalike(identity.person, (*(one.person for one in known), *(one.person for one in transaction.tokens())))
    if identity.by is VouchedBy.OIDC:
        transaction.add_identity(KnownIdentity(identity.issuer, identity.subject, identity.person))
        body = {"issuer": identity.issuer, "subject": identity.subject}
        transaction.append(Fact("identity.bound", f"person/{identity.person}", identity.person, body=body))


def forget(service: Service, person: str, *, by: str) -> None:
    """Undo which account a person is: whoever comes next with this name is he; NotFound."""

    def record(transaction: Transaction) -> None:
        found = [one for one in transaction.known_identities() if one.person == person]
        if not found:
            raise NotFound(f"No account has signed in as {person}.", "`unstick sessions list --accounts` lists them.")
        for one in found:
            transaction.remove_identity(one)
            body = {"issuer": one.issuer, "subject": one.subject}
            transaction.append(Fact("identity.forgotten", f"person/{person}", by, on_behalf_of=person, body=body))

    service.store.write(record)


def _refuse_lookalike(person: str, others: Iterable[str]) -> None:
    """Raise Unauthenticated when the name is a known one, written otherwise."""
    alike = {other for other in others if person_key(other) == person_key(person)}
    if alike and person not in alike:
        raise Unauthenticated(
            f"The name {person} is {min(alike)}, written otherwise; both would count as one person.",
            "Ask an admin to write both the same: at the provider, or with a new token.",
        )


def _refused(reason: str, person: str) -> Unauthenticated:
    way_out = (
        f"Ask an admin. If it is right, he types on the service's host: unstick sessions forget {shlex.quote(person)}"
    )
    return Unauthenticated(reason, way_out)
