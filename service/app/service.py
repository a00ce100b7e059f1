"""The ports, as one value that use cases are given; `main.py` builds it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from service.app.alert_ports import PolicySource
from service.app.login_ports import IdentityProvider, LoginSource, NobodyVouches, TokensAlone
from service.app.notice_ports import NobodyIsTold, NobodyTells, NoticeSender, NotifySource
from service.app.ports import Clock, Executors, InventorySource, Receivers, RuleSource, Runbooks, Store
from service.app.survey_ports import NobodyLooks, Surveyor
from service.app.taking_first import TakingFirst
from service.domain.alert import Parsed
from service.domain.errors import InvalidInput, Unauthenticated
from service.domain.policy import Policy
from service.domain.rule import AlertSource, RuleSet


def _nobody_listens() -> None:
    """Stand for an engine that is not there: due rows are found by whoever runs one."""


class _NoRules:
    """Stands for a file of rules that is not there: nobody may deliver an alert."""

    def current(self) -> RuleSet:
        return RuleSet()


class _NoPolicy:
    """Stands for a file of limits that is not there: those of this version hold."""

    def current(self) -> Policy:
        return Policy()


class _NobodyReceives:
    """Stands for receivers that are not there: nothing is proven, and nothing is read."""

    def token(self, headers: Mapping[str, str]) -> str:
        raise Unauthenticated("Alerts are not received here.")

    def verify(self, source: AlertSource, body: bytes, *, headers: Mapping[str, str], now: datetime) -> None:
        raise Unauthenticated("Alerts are not received here.")

    def parse(self, source: AlertSource, body: bytes, *, headers: Mapping[str, str], now: datetime) -> Parsed:
        raise InvalidInput("Alerts are not received here.")


@dataclass(frozen=True)
class Service:
    """All that a use case may reach."""

    store: Store
    runbooks: Runbooks
    inventory: InventorySource
    executors: Executors
    clock: Clock
    #: SHA-256 of the envelope's bytes, part of every plan.
    envelope_sha256: str
    #: Names this installation in the acting lock of a node.
    service_id: str
    #: Tells the engine that something may be due.
    wake_engine: Callable[[], None] = _nobody_listens
    #: Tells the engine that alerts may be due, and nothing else: that is said at each delivery.
    wake_judging: Callable[[], None] = _nobody_listens
    #: Lets judging wait while deliveries are recorded.
    taking_first: TakingFirst = field(default_factory=TakingFirst)
    #: Who may deliver alerts, and what they start.
    rules: RuleSource = field(default_factory=_NoRules)
    receivers: Receivers = field(default_factory=_NobodyReceives)
    #: How far alerts may go without a person.
    policy: PolicySource = field(default_factory=_NoPolicy)
    #: Who is told what, and how it is sent.
    notify: NotifySource = field(default_factory=NobodyIsTold)
    sender: NoticeSender = field(default_factory=NobodyTells)
    #: Who looks at what runs on a node before it is disrupted.
    surveyor: Surveyor = field(default_factory=NobodyLooks)
    #: How persons sign in besides tokens, and who vouches for them.
    login: LoginSource = field(default_factory=TokensAlone)
    provider: IdentityProvider = field(default_factory=NobodyVouches)
