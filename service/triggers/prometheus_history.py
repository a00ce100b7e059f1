"""Asks a Prometheus which alerts have fired.

By version 1 of its HTTP API (https://prometheus.io/docs/prometheus/latest/querying/api/): a range selector in an
instant query gives the samples as they were written, at their own times; `query_range` would give what each step sees,
and no more than 11,000 steps. It is asked in slices, so that no answer is large.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import httpx

from service.domain.bounded_bytes import whole
from service.domain.errors import InvalidInput, NotFound, SourceSilent
from service.triggers.prometheus_series import Delivered, Occasions, Sample

#: What one question asks for, and how much of an answer is read (bytes).
SLICE = timedelta(hours=6)
MOST_BYTES = 256 * 1024 * 1024
#: More alerts that differ in a label are refused.
MOST_ALERTS = 50_000
_SECONDS = 120.0
_OWN_LABELS = frozenset({"__name__", "alertstate"})

_Key = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Access:
    """Where a Prometheus is, and what proves that we may ask."""

    url: str
    #: For a bearer.
    token: str | None = None
    #: Name and password.
    basic: tuple[str, str] | None = None


@dataclass(frozen=True)
class Wanted:
    """Which alerts are asked for."""

    begin: datetime
    until: datetime
    #: More matchers of PromQL, such as `alertname=~"Fuse.*"`.
    match: str = ""
    #: Labels that Prometheus adds to what it sends and does not keep (`external_labels`).
    external: Mapping[str, str] | None = None


class PrometheusHistory:
    """Asks one Prometheus, or what answers as one."""

    def __init__(
        self, access: Access, *, transport: httpx.BaseTransport | None = None, most: int = MOST_ALERTS
    ) -> None:
        """Nothing is asked yet; InvalidInput for what is no address. A test gives a transport and the most alerts."""
        if httpx.URL(access.url).scheme not in ("http", "https"):
            raise InvalidInput(f"{access.url!r} is no address of a Prometheus.", "Write http://HOST:9090.")
        self._url = access.url.rstrip("/")
        self._most = most
        headers = {} if access.token is None else {"Authorization": f"Bearer {access.token}"}
        auth = None if access.basic is None else httpx.BasicAuth(*access.basic)
        timeout = httpx.Timeout(_SECONDS, connect=10.0)
        self._http = httpx.Client(headers=headers, auth=auth, timeout=timeout, transport=transport)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def delivered(self, wanted: Wanted) -> list[Delivered]:
        """Return what an Alertmanager would have delivered, in order; SourceSilent, NotFound when there is nothing."""
        occasions = Occasions(begin=wanted.begin.timestamp(), until=wanted.until.timestamp())
        seen: set[_Key] = set()
        begin = wanted.begin
        while begin < wanted.until:
            end = min(begin + SLICE, wanted.until)
            firing = self._slice(wanted, begin, end)
            seen |= firing.keys()
            if len(seen) > self._most:
                raise SourceSilent(f"More than {self._most} different alerts have fired.", _NARROW)
            for samples in firing.values():
                occasions.take(samples)
            begin = end
        if not seen:
            raise NotFound(f"{self._url} knows of no alert that has fired in that time.", _NOTHING)
        return occasions.delivered()

    def _slice(self, wanted: Wanted, begin: datetime, end: datetime) -> Mapping[_Key, list[Sample]]:
        """Return the firing samples of each alert, oldest first."""
        matchers = [
            '__name__=~"ALERTS|ALERTS_FOR_STATE"',
            'alertstate=~"firing|"',
            *([wanted.match] if wanted.match else []),
        ]
        seconds = max(1, round((end - begin).total_seconds()))
        rows = self._ask(f"{{{','.join(matchers)}}}[{seconds}s]", end)
        firing: defaultdict[_Key, list[float]] = defaultdict(list)
        since: defaultdict[_Key, dict[float, float]] = defaultdict(dict)
        for row in rows:
            metric = {str(name): str(value) for name, value in row["metric"].items()}
            key = tuple(sorted((name, value) for name, value in metric.items() if name not in _OWN_LABELS))
            if metric.get("alertstate") == "firing":
                firing[key] += [float(at) for at, _ in row["values"]]
            else:
                since[key] |= {float(at): float(value) for at, value in row["values"]}
        more = dict(wanted.external or {})
        return {
            key: [Sample(more | dict(key), at, since[key].get(at)) for at in sorted(ats)] for key, ats in firing.items()
        }

    def _ask(self, query: str, at: datetime) -> list[Mapping[str, Any]]:
        form = {"query": query, "time": f"{at.timestamp():.3f}"}
        try:
            with self._http.stream("POST", f"{self._url}/api/v1/query", data=form) as response:
                text = _whole(response)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            told = f"{type(error).__name__}: {error}".rstrip(": .")
            raise SourceSilent(f"{self._url} does not answer: {told}.", _LOOK_AT_URL) from error
        if response.status_code in (401, 403):
            raise SourceSilent(f"{self._url} answers {response.status_code}: it does not know who asks.", _PROVE)
        try:
            said = json.loads(text)
            if said["status"] == "error":
                raise SourceSilent(f"{self._url} refuses: {str(said['error'])[:300].rstrip('.')}.", _NARROW)
            return list(_checked(said["data"]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            way_out = f"It answered {response.status_code}. {_LOOK_AT_URL}"
            raise SourceSilent(f"What answers at {self._url} is no Prometheus.", way_out) from error


def _checked(data: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the series of an answer; ValueError for anything else."""
    if data["resultType"] != "matrix":
        raise ValueError("no matrix")
    for row in data["result"]:
        if not isinstance(row["metric"], dict) or not all(len(pair) == 2 for pair in row["values"]):
            raise ValueError("no series")
        yield row


def _whole(response: httpx.Response) -> bytes:
    body = whole(response.iter_bytes(), most=MOST_BYTES)
    if body is None:
        raise SourceSilent(f"An answer has more than {MOST_BYTES} bytes.", _NARROW)
    return body


_LOOK_AT_URL = "Look at --prometheus: the address under which its own pages are found."
_PROVE = "Give --token-file, or --basic-file with NAME:PASSWORD."
_NARROW = "Take less with --match 'alertname=\"NAME\"', or a shorter --since."
_NOTHING = "Look whether its rules are loaded, whether it keeps samples for so long, and at --match."
