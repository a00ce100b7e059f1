"""Numbers for Prometheus, in a registry of our own."""

from collections.abc import Iterator
from datetime import timedelta

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from service.app.pause_alerts import standing
from service.app.service import Service
from service.domain.delivery import HeldBy
from service.domain.run import OPEN_STATES, GateState, NodeRunState

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_A_DAY = timedelta(days=1)
#: More gates that were overridden are not counted.
_MOST = 200


class Metrics:
    """Counts requests as they come; what is open is read from the store when it is asked for."""

    def __init__(self, service: Service) -> None:
        """Count for this service."""
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "unstick_http_requests", "HTTP requests answered.", ["method", "route", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "unstick_http_request_seconds", "How long answers took.", ["route"], registry=self._registry
        )
        self._registry.register(_Backlog(service))
        self._registry.register(_Sources(service))
        self._registry.register(_Notices(service))
        self._registry.register(_Alerts(service))

    def count(self, *, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request; status 0: the client was gone."""
        known = method if method in _METHODS else "other"
        self._requests.labels(known, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def render(self) -> bytes:
        """Return everything as Prometheus reads it; Unavailable when the store cannot be read."""
        return generate_latest(self._registry)


class _Backlog(Collector):
    """What is open at this moment."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def describe(self) -> Iterator[Metric]:
        yield from ()

    def collect(self) -> Iterator[Metric]:
        backlog = self._service.store.read(lambda reader: reader.backlog())
        node_runs = GaugeMetricFamily("unstick_node_runs", "Node runs that have not ended.", labels=["state"])
        for state in sorted(OPEN_STATES):
            node_runs.add_metric([state], backlog.node_runs.get(state, 0))
        yield node_runs
        stuck = backlog.node_runs.get(NodeRunState.STUCK, 0)
        yield GaugeMetricFamily("unstick_node_runs_stuck", "Node runs that a person must resolve.", value=stuck)
        yield GaugeMetricFamily("unstick_gates_open", "Gates that wait for a person.", value=backlog.open_gates)
        since = self._service.clock.now() - _A_DAY
        page = self._service.store.read(lambda reader: reader.gates(GateState.OVERRIDDEN, cursor=None, limit=_MOST))
        late = sum(gate.decided_at is not None and gate.decided_at > since for gate in page.items)
        yield GaugeMetricFamily("unstick_gates_overridden", "Gates that were overridden in the last day.", value=late)


class _Alerts(Collector):
    """What keeps alerts from starting runs at this moment."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def describe(self) -> Iterator[Metric]:
        yield from ()

    def collect(self) -> Iterator[Metric]:
        backlog = self._service.store.read(lambda reader: reader.alert_backlog())
        stops = standing(self._service)
        held = GaugeMetricFamily("unstick_alerts_held", "Alerts that are judged again later.", labels=["by"])
        for by in sorted(HeldBy):
            held.add_metric([by], backlog.held.get(by, 0))
        latched = GaugeMetricFamily("unstick_breaker_latched", "1: an admin must reset it.", labels=["breaker"])
        for breaker in stops.breakers:
            latched.add_metric([breaker.name], float(breaker.latched))
        paused = float(stops.pause is not None)
        yield GaugeMetricFamily("unstick_alerts_unjudged", "Alerts that were never judged.", value=backlog.unjudged)
        yield held
        yield GaugeMetricFamily("unstick_alerts_paused", "1: no alert starts anything.", value=paused)
        yield latched


class _Sources(Collector):
    """How the sources of nodes stand at this moment. One that never answered has no age."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def describe(self) -> Iterator[Metric]:
        yield from ()

    def collect(self) -> Iterator[Metric]:
        inventory, now = self._service.inventory.current(), self._service.clock.now()
        age = GaugeMetricFamily(
            "unstick_node_source_age_seconds", "How old the last good answer of a source is.", labels=["source"]
        )
        stale = GaugeMetricFamily(
            "unstick_node_source_stale", "1: nothing is planned on nodes that it alone knows.", labels=["source"]
        )
        nodes = GaugeMetricFamily("unstick_node_source_nodes", "Nodes in its last good answer.", labels=["source"])
        for source in inventory.sources:
            old = source.age(now)
            if old is not None:
                age.add_metric([source.name], old.total_seconds())
            stale.add_metric([source.name], float(source.stale(now)))
            nodes.add_metric([source.name], source.nodes)
        yield from (age, stale, nodes)
        refused = len(inventory.refused)
        yield GaugeMetricFamily("unstick_node_names_refused", "Names that stand for no one machine.", value=refused)


class _Notices(Collector):
    """How it stands with who is told of what; a day is what a person looks back on."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def describe(self) -> Iterator[Metric]:
        yield from ()

    def collect(self) -> Iterator[Metric]:
        now = self._service.clock.now()
        backlog = self._service.store.read(lambda reader: reader.telling_backlog(now - _A_DAY))
        pending = GaugeMetricFamily("unstick_notices_pending", "Notices that wait to be told.", labels=["receiver"])
        age = GaugeMetricFamily(
            "unstick_notices_oldest_seconds", "How long ago the oldest of these happened.", labels=["receiver"]
        )
        lost = GaugeMetricFamily(
            "unstick_notices_given_up", "Notices that were given up in the last day.", labels=["receiver"]
        )
        for name, one in backlog.items():
            pending.add_metric([name], one.pending)
            lost.add_metric([name], one.given_up)
            if one.oldest is not None:
                age.add_metric([name], (now - one.oldest).total_seconds())
        yield from (pending, age, lost)
