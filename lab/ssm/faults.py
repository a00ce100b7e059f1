"""What goes wrong on purpose: answers, connections, agents, machines, the clock. Nothing does until a test says so."""

import random
import threading
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self


class Outcome(StrEnum):
    """What becomes of one call."""

    OK = "ok"
    THROTTLE = "throttle"  # 400 ThrottlingException, not accepted
    TOO_MANY = "too_many"  # 429 without a body, not accepted
    INTERNAL = "internal"  # 500 InternalServerError, not accepted
    INTERNAL_AFTER = "internal_after"  # 500 InternalServerError, although it was accepted
    UNAVAILABLE = "unavailable"  # 503, not accepted
    CUT = "cut"  # the connection ends, not accepted
    CUT_AFTER = "cut_after"  # accepted, then the connection ends
    HANG = "hang"  # no answer until the client gives up, not accepted
    HANG_AFTER = "hang_after"  # accepted, then no answer
    DENY = "deny"  # 400 AccessDeniedException
    EXPIRED = "expired"  # 400 ExpiredTokenException

    @property
    def accepts(self) -> bool:
        """Tell whether the call takes effect."""
        return self in (Outcome.OK, Outcome.INTERNAL_AFTER, Outcome.CUT_AFTER, Outcome.HANG_AFTER)


class Moment(StrEnum):
    """When an agent dies, seen from the command it has."""

    BEFORE = "before"  # taken from the service, nothing started
    DURING = "during"  # the script runs, and goes on
    AFTER = "after"  # the script has ended, nobody has told the service


@dataclass(frozen=True)
class Death:
    """One death of an agent; it is back `back_after` seconds of the service's time later, or never (None).

    With `reboot` it dies because its machine is rebooted, and is back with that.
    """

    moment: Moment
    back_after: float | None = None
    reboot: bool = False


class Faults:
    """The switches; every one is safe to set while calls are answered."""

    def __init__(self, seed: int = 0) -> None:
        """Begin with none; chance comes from `seed` alone."""
        self._lock = threading.Lock()
        self._chance = random.Random(seed)
        self._next: defaultdict[str, deque[Outcome]] = defaultdict(deque)
        self._rules: list[tuple[Outcome, float, frozenset[str]]] = []
        self._deaths: defaultdict[str, deque[Death]] = defaultdict(deque)
        self.hang_seconds = 60.0  # real seconds until a call that hangs is cut
        self.clock_skew = 0.0  # seconds that the service is ahead of us; more than 300 refuses signatures
        self.duplicates = 0  # how many more times each command is delivered with the same id
        self.undelivered = "Delayed"  # what an unreachable agent's invocation shows: Delayed, InProgress or Pending
        self.refused: dict[str, str] = {}  # instance id: Undeliverable, AccessDenied or InvalidPlatform
        self.cancel_lost: set[str] = set()  # instance ids whose agent never hears of a cancel
        self.kill_ignored: set[str] = set()  # instance ids on which nothing dies of SIGKILL, as in D state
        self.deaf: set[str] = set()  # instance ids whose agent takes no command, though it pings

    def next(self, operation: str, *outcomes: Outcome | str) -> None:
        """Say what becomes of the next calls of one operation, in order; those after them are left alone."""
        with self._lock:
            self._next[operation].extend(Outcome(each) for each in outcomes)

    def always(self, outcome: Outcome | str, probability: float = 1.0, *, operations: Iterable[str] = ()) -> None:
        """Let calls end this way with a probability until `clear`; no operations means all."""
        with self._lock:
            self._rules.append((Outcome(outcome), probability, frozenset(operations)))

    def die(self, instance: str, moment: Moment | str, *, back_after: float | None = None) -> None:
        """Let an instance's agent die at this moment of the next command it gets."""
        with self._lock:
            self._deaths[instance].append(Death(Moment(moment), back_after))

    def reboot(self, instance: str, moment: Moment | str) -> None:
        """Let an instance be rebooted, by its own `reboot`, at this moment of the next command it gets."""
        with self._lock:
            self._deaths[instance].append(Death(Moment(moment), reboot=True))

    def clear(self) -> None:
        """Let nothing more go wrong; what has happened stays."""
        fresh = Faults()
        with self._lock:
            for name in ("_next", "_rules", "_deaths"):
                getattr(self, name).clear()
            for name in PLAIN:
                setattr(self, name, getattr(fresh, name))

    def outcome(self, operation: str) -> Outcome:
        """Decide one call."""
        with self._lock:
            if self._next[operation]:
                return self._next[operation].popleft()
            for outcome, probability, operations in self._rules:
                if (not operations or operation in operations) and self._chance.random() < probability:
                    return outcome
            return Outcome.OK

    def death(self, instance: str, moment: Moment) -> Death | None:
        """Take the death that is due for an agent at this moment, if there is one."""
        with self._lock:
            if self._deaths[instance] and self._deaths[instance][0].moment is moment:
                return self._deaths[instance].popleft()
            return None

    def apply(self, wanted: Mapping[str, Any]) -> Self:
        """Set switches from JSON: `clear`, `next`, `always`, `die`, `reboot`, and the plain ones by name."""
        if wanted.get("clear"):
            self.clear()
        for operation, outcomes in (wanted.get("next") or {}).items():
            self.next(operation, *outcomes)
        for rule in wanted.get("always") or []:
            self.always(rule["outcome"], rule.get("probability", 1.0), operations=rule.get("operations", ()))
        for death in wanted.get("die") or []:
            self.die(death["instance"], death["moment"], back_after=death.get("back_after"))
        for reboot in wanted.get("reboot") or []:
            self.reboot(reboot["instance"], reboot["moment"])
        for name in PLAIN & set(wanted):
            kind = type(getattr(self, name))
            setattr(self, name, kind(wanted[name]))
        return self


PLAIN = frozenset(
    {"hang_seconds", "clock_skew", "duplicates", "undelivered", "refused", "cancel_lost", "kill_ignored", "deaf"}
)
