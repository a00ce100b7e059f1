"""What came in from monitors, as it is recorded: deliveries, their alerts, and what was decided of each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from service.domain.alert import Alert, AlertStatus

#: So much of a body is kept (bytes).
KEPT_BYTES = 256 * 1024
#: So much of an alert's name goes on the record of what was decided.
_MOST_OF_A_NAME = 200


class DeliveryState(StrEnum):
    """What became of a delivery as a whole."""

    #: Its alerts are judged, each by itself.
    ACCEPTED = "accepted"
    #: Nothing in it is a fault; `ignored` says why.
    IGNORED = "ignored"
    #: It is none of its kind; `ignored` says why.
    REJECTED = "rejected"


@dataclass(frozen=True)
class Delivery:
    """One request of a monitor, by somebody who was known."""

    id: str
    source: str
    received_at: datetime
    state: DeliveryState
    #: Who counts as requester of what it starts: the person of the token, or `source:NAME`.
    delivered_by: str
    #: What the sender calls it, the same when it comes again.
    delivery_key: str | None = None
    #: The beginning of what was sent, secrets taken out.
    body: bytes = b""
    #: Bytes that were sent.
    body_bytes: int = 0
    #: Alerts that the sender says it has left out.
    omitted: int = 0
    #: Why there are no alerts in it.
    ignored: str = ""
    #: An address that an operator may confirm (SNS).
    confirm_url: str = ""

    @property
    def whole(self) -> bool:
        """Whether nothing was cut off."""
        return self.body_bytes <= KEPT_BYTES


class AlertVerdict(StrEnum):
    """What was decided of one alert."""

    #: It has started a run.
    RAN = "ran"
    #: It tells of what is known already.
    DEDUPLICATED = "deduplicated"
    COOLING_DOWN = "cooling_down"
    #: It is judged again at `wake_at`, or when what it waits for is over.
    HELD = "held"
    REFUSED = "refused"
    NO_RULE = "no_rule"
    NO_NODE = "no_node"
    RESOLVED = "resolved"
    STALE = "stale"
    #: It could not be understood.
    SET_ASIDE = "set_aside"
    IGNORED = "ignored"


class HeldBy(StrEnum):
    """What a held alert waits for."""

    PAUSE = "pause"
    FREEZE = "freeze"
    BREAKER = "breaker"
    #: A person's hold of the node.
    HOLD = "hold"
    #: Another run has the node.
    BUSY = "busy"
    #: As many nodes are disrupted as may be.
    BLAST_RADIUS = "blast_radius"
    #: A source of nodes has not answered, so whether there is such a node is not known.
    INVENTORY = "inventory"
    #: Somebody else has the node: it is cordoned or drained by others, or about to be rebooted by them.
    OWNER = "owner"
    #: A fault of the service itself.
    FAULT = "fault"


@dataclass(frozen=True)
class RecordedAlert:
    """One alert of a delivery, and how it was judged; without a verdict it is still to be."""

    id: str
    delivery_id: str
    #: Its place in the delivery, from 0.
    index: int
    source: str
    #: Who counts as requester of what it starts, as its delivery says.
    delivered_by: str
    received_at: datetime
    fingerprint: str
    status: AlertStatus
    starts_at: datetime
    ends_at: datetime | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    link: str = ""
    judged_at: datetime | None = None
    verdict: AlertVerdict | None = None
    rule: str = ""
    node: str = ""
    #: The run that it has started, or that another alert of the same fault had started.
    run_id: str = ""
    #: One sentence.
    reason: str = ""
    held_by: HeldBy | None = None
    #: When it is judged (again); None: it is decided.
    wake_at: datetime | None = None

    @property
    def alert(self) -> Alert:
        """Return what the monitor said."""
        return Alert(
            self.fingerprint, self.status, self.starts_at, self.ends_at, self.labels, self.annotations, self.link
        )

    @property
    def name(self) -> str:
        """Return the name that people know it by."""
        return self.labels.get("alertname") or self.fingerprint

    @property
    def short_name(self) -> str:
        """Return the name as the record keeps it: a monitor may send one of any length."""
        return self.name[:_MOST_OF_A_NAME]


@dataclass(frozen=True)
class Pause:
    """A person says: no alert starts anything until further notice."""

    by: str
    reason: str
    at: datetime

    @property
    def words(self) -> str:
        """Return who paused, and why."""
        return f"paused by {self.by}: {self.reason}"


@dataclass(frozen=True)
class Breaker:
    """What stops every alert once too much has happened, until a person has looked."""

    name: str
    #: When it went off; None: it is closed.
    latched_at: datetime | None = None
    #: Why it went off.
    reason: str = ""
    reset_at: datetime | None = None
    reset_by: str = ""
    reset_reason: str = ""

    @property
    def latched(self) -> bool:
        """Whether it stops alerts now."""
        return self.latched_at is not None
