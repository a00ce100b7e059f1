"""Two ways to SSM of one account and region: one that never asks twice, and one that may.

SendCommand has no token by which the service would know a second copy, so the client that sends makes one request and
no more; botocore alone would make three (retry mode standard) or five (legacy).
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.config import Config

from service.domain.node import Endpoint
from service.executors.ssm.faults import RAISED, read_fault


@dataclass(frozen=True)
class Place:
    """An account and region, as the inventory names them; what is None is boto3's to find."""

    region: str | None
    profile: str | None


def place_of(endpoint: Endpoint) -> Place:
    """Return where the instance of an endpoint is known."""
    return Place(endpoint.region, endpoint.profile)


@dataclass(frozen=True)
class Patience:
    """How long a request may take, in seconds."""

    connect: float = 5.0
    answer: float = 15.0


class Gateway:
    """Calls of one place. Safe for many threads. Every expected error is a Fault."""

    def __init__(self, place: Place, patience: Patience) -> None:
        """Take the place; clients are made at the first call."""
        self.place = place
        self._patience = patience
        self._lock = threading.Lock()
        self._clients: tuple[Any, Any] | None = None

    def act(self, operation: str, **parameters: object) -> Mapping[str, Any]:
        """Call an operation that changes something: one request, whatever becomes of it."""
        acting, _ = self._made()
        return _call(acting, operation, parameters)

    def look(self, operation: str, **parameters: object) -> Mapping[str, Any]:
        """Call an operation that reads; it is tried again for a while, more slowly where AWS throttles."""
        _, reading = self._made()
        return _call(reading, operation, parameters)

    def close(self) -> None:
        """Close what connections there are."""
        with self._lock:
            clients, self._clients = self._clients, None
        for client in clients or ():
            client.close()

    def _made(self) -> tuple[Any, Any]:
        with self._lock:
            if self._clients is None:
                try:
                    session = boto3.session.Session(region_name=self.place.region, profile_name=self.place.profile)
                    self._clients = (
                        session.client("ssm", config=self._config({"total_max_attempts": 1})),
                        session.client("ssm", config=self._config({"mode": "adaptive", "total_max_attempts": 3})),
                    )
                except RAISED as error:
                    raise read_fault(error, asked=False) from error
            return self._clients

    def _config(self, retries: Mapping[str, object]) -> Config:
        return Config(
            retries=dict(retries),
            connect_timeout=self._patience.connect,
            read_timeout=self._patience.answer,
            max_pool_connections=32,
            tcp_keepalive=True,
            user_agent_extra="unstick",
        )


def _call(client: Any, operation: str, parameters: Mapping[str, object]) -> Mapping[str, Any]:
    try:
        answer = getattr(client, operation)(**parameters)
    except RAISED as error:
        raise read_fault(error) from error
    if not isinstance(answer, dict):
        raise read_fault(ValueError("the answer is no object"))
    return answer
