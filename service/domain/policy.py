"""How far alerts may go without a person, over all rules: what a reviewed file says, or these defaults."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

from service.domain.rights import BREAK_GLASS_OFF, Rights
from service.domain.survey import NO_LIMITS, OccupantLimits


@dataclass(frozen=True)
class WindowCap:
    """At most so many nodes in a time; more latches the breaker."""

    most: int = 10
    within: timedelta = timedelta(hours=1)


@dataclass(frozen=True)
class BlastRadius:
    """How many nodes may be disrupted, over all runbooks."""

    #: At the same time.
    nodes_at_once: int = 3
    per_window: WindowCap = WindowCap()
    #: Of each pool that a node is in, at the same time: rounded down, and at least one node.
    percent_of_pool: int = 10

    def of_pool(self, size: int) -> int:
        """Return how many nodes of a pool of this size may be disrupted at the same time."""
        return max(1, size * self.percent_of_pool // 100)


@dataclass(frozen=True)
class Freeze:
    """A time in which no alert starts anything: once, or every week. All in UTC."""

    name: str
    #: Once: from here, to here (not included).
    start: datetime | None = None
    end: datetime | None = None
    #: Every week: on these days (Monday is 0), from this time of day, for so long.
    days: tuple[int, ...] = ()
    at: time = time(0)
    lasts: timedelta = timedelta(0)
    #: Empty: every node.
    pools: tuple[str, ...] = ()

    def until(self, now: datetime) -> datetime | None:
        """Return when it is over, if it is on now; None when it is not."""
        if self.start is not None and self.end is not None:
            return self.end if self.start <= now < self.end else None
        today = now.astimezone(UTC).date()
        # The longest one lasts a week, so it began on one of the last eight days.
        for back in range(8):
            day = today - timedelta(days=back)
            begins = datetime.combine(day, self.at, tzinfo=UTC)
            if day.weekday() in self.days and begins <= now < begins + self.lasts:
                return begins + self.lasts
        return None

    def is_for(self, pools: Iterable[str]) -> bool:
        """Whether it is for a node that is in these pools."""
        return not self.pools or bool(set(self.pools) & set(pools))


@dataclass(frozen=True)
class Keep:
    """For how long what takes room is kept. What was done, by whom and why stays for ever."""

    #: What scripts have said.
    output_days: int = 365
    #: What monitors have sent, and the alerts that have started nothing.
    delivery_days: int = 90


@dataclass(frozen=True)
class Policy:
    """The whole file; what is left out there is as it stands here."""

    blast_radius: BlastRadius = BlastRadius()
    freezes: tuple[Freeze, ...] = ()
    keep: Keep = Keep()
    #: More than that on a node, and a person answers the gates that a rule has waived.
    occupants: OccupantLimits = NO_LIMITS
    #: None: roles alone decide who may do what.
    rights: Rights = None
    #: Whether a gate may be overridden, by who has the role for it.
    break_glass: bool = False
    #: Why it is off though the policy that is kept allows it; empty: nothing is known against it.
    break_glass_doubt: str = ""
    #: Expressions of RE2's that find secrets of the house in what scripts and monitors say.
    redact: tuple[str, ...] = ()

    @property
    def break_glass_off(self) -> str:
        """Return why no gate may be overridden, in one or two sentences; empty when one may be."""
        return self.break_glass_doubt or ("" if self.break_glass else BREAK_GLASS_OFF)

    def frozen(self, now: datetime, pools: Iterable[str]) -> tuple[Freeze, datetime] | None:
        """Return the freeze that lasts longest for a node in these pools, and its end; None when there is none."""
        on = [(freeze, end) for freeze in self.freezes if freeze.is_for(pools) and (end := freeze.until(now))]
        return max(on, key=lambda one: one[1], default=None)
