"""An alert: what a monitor tells us, in one form whoever sent it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class AlertSourceKind(StrEnum):
    """The senders whose words are understood."""

    ALERTMANAGER = "alertmanager"
    GRAFANA = "grafana"
    PAGERDUTY = "pagerduty"
    #: CloudWatch, by SNS.
    CLOUDWATCH = "cloudwatch"
    #: Any JSON, mapped by CEL.
    GENERIC = "generic"


class AlertStatus(StrEnum):
    """Whether the fault is there, as the monitor sees it."""

    FIRING = "firing"
    RESOLVED = "resolved"


@dataclass(frozen=True)
class Alert:
    """One fault that one monitor sees, at one time."""

    #: The same for as long as it is the same fault, of the same source.
    fingerprint: str
    status: AlertStatus
    #: With the fingerprint, what makes it this occasion and no other.
    starts_at: datetime
    ends_at: datetime | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    #: Where a person can look at it.
    link: str = ""


@dataclass(frozen=True)
class SetAside:
    """A member of a delivery that could not be understood; its neighbours are judged all the same."""

    #: Counts from 0.
    index: int
    reason: str


@dataclass(frozen=True)
class Parsed:
    """What a delivery says."""

    alerts: tuple[Alert, ...] = ()
    set_aside: tuple[SetAside, ...] = ()
    #: Alerts that the sender says it has left out.
    omitted: int = 0
    #: What the sender calls this delivery, the same when it comes again; None when it has no name.
    delivery_key: str | None = None
    #: Why there are no alerts in it, in one sentence: a test, a kind of event that is no fault.
    ignored: str = ""
    #: An address that an operator may confirm (SNS); it is never asked by itself.
    confirm_url: str = ""
