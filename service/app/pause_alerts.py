"""Pause and resume what alerts start, and reset a breaker: alerts are recorded and held meanwhile."""

from dataclasses import dataclass, replace

from service.app.insist import insist
from service.app.ports import Reader, Transaction
from service.app.service import Service
from service.domain.audit import Fact
from service.domain.delivery import Breaker, HeldBy, Pause
from service.domain.errors import Conflict, InvalidInput, NotFound
from service.domain.person import Permission, Person
from service.domain.rails import BLAST_RADIUS
from service.domain.shown_text import is_blank

#: Every breaker that there is.
BREAKERS = (BLAST_RADIUS,)


@dataclass(frozen=True)
class Standing:
    """What keeps every alert from starting anything at this moment."""

    pause: Pause | None
    breakers: tuple[Breaker, ...]


def standing(service: Service) -> Standing:
    """Return the pause and the breakers as they are now."""

    def look(reader: Reader) -> Standing:
        return Standing(reader.pause(), tuple(reader.breaker(name) for name in BREAKERS))

    return service.store.read(look)


def pause_alerts(service: Service, *, person: Person, reason: str) -> Pause:
    """Let no alert start anything until somebody resumes; runs that were started go on.

    Raises Forbidden, InvalidInput without a reason, Conflict when it is paused already.
    """
    _insist_on(reason, "A pause", "Say why no alert may start anything.")

    def record(transaction: Transaction) -> Pause:
        transaction.lock_alerts()
        insist(service, person, Permission.PAUSE)
        before = transaction.pause()
        if before is not None:
            raise Conflict(f"Alerts are {before.words}", "`unstick resume --reason ...` ends the pause.")
        pause = Pause(person.name, reason, service.clock.now())
        transaction.put_pause(pause)
        transaction.append(Fact("alerts.paused", "alerts", person.name, body={"reason": reason}))
        return pause

    return service.store.write(record)


def resume_alerts(service: Service, *, person: Person, reason: str) -> int:
    """End the pause, whoever began it, and return how many held alerts are judged again; Conflict without one."""
    _insist_on(reason, "The end of a pause", "Say why alerts may start runs again.")

    def record(transaction: Transaction) -> int:
        transaction.lock_alerts()
        insist(service, person, Permission.PAUSE)
        before = transaction.pause()
        if before is None:
            raise Conflict("Alerts are not paused.", "There is nothing to resume.")
        transaction.remove_pause()
        woken = transaction.wake_alerts(at=service.clock.now(), held_by=HeldBy.PAUSE)
        body = {"reason": reason, "it_was": before.words, "alerts": woken}
        transaction.append(Fact("alerts.resumed", "alerts", person.name, body=body))
        return woken

    woken = service.store.write(record)
    service.wake_engine()
    return woken


def reset_breaker(service: Service, name: str, *, person: Person, reason: str) -> int:
    """Close a breaker that has latched; what it counts begins anew. Return how many held alerts are judged again.

    Raises Forbidden, NotFound for an unknown breaker, Conflict for one that has not latched, and InvalidInput without
    a reason.
    """
    if name not in BREAKERS:
        raise NotFound(f"There is no breaker {name}.", f"The breakers are: {', '.join(BREAKERS)}.")
    _insist_on(reason, "A reset", "Say what was wrong, and why it is safe again.")
    now = service.clock.now()

    def record(transaction: Transaction) -> int:
        transaction.lock_alerts()
        insist(service, person, Permission.PAUSE)
        before = transaction.breaker(name)
        if not before.latched:
            raise Conflict(f"The breaker {name} is not latched.", "There is nothing to reset.")
        transaction.put_breaker(
            replace(before, latched_at=None, reason="", reset_at=now, reset_by=person.name, reset_reason=reason)
        )
        woken = transaction.wake_alerts(at=now, held_by=HeldBy.BREAKER)
        body = {"reason": reason, "it_was": before.reason, "alerts": woken}
        transaction.append(Fact("breaker.reset", f"breaker/{name}", person.name, body=body))
        return woken

    woken = service.store.write(record)
    service.wake_engine()
    return woken


def _insist_on(reason: str, what: str, way_out: str) -> None:
    if is_blank(reason):
        raise InvalidInput(f"{what} needs a reason.", way_out)
