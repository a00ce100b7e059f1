"""Counts every store write and executor call of a service, and kills it at one of them.

The ports are wrapped where the service is built; the code itself knows nothing of it.
"""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from service.app.ports import Executor, Executors, Store
from service.domain.node import Endpoint
from service.domain.script import AttemptRef, OutputChunk, Report, ScriptOrder
from service.main import Ports

T = TypeVar("T")
OnOutput = Callable[[OutputChunk], None]


@dataclass
class Boundaries:
    """The boundaries that were passed so far, each written down; at one of them the process dies."""

    log: Path
    crash_at: int | None
    passed: int = field(default=0)

    def pass_one(self, name: str) -> None:
        """Pass a boundary, or die at it by SIGKILL."""
        self.passed += 1
        with self.log.open("a") as log:
            log.write(f"{name}\n")
        if self.passed == self.crash_at:
            os.kill(os.getpid(), signal.SIGKILL)


class CountedStore:
    """A store with a boundary before and after each write."""

    def __init__(self, store: Store, boundaries: Boundaries) -> None:
        """Stand before a store."""
        self._store = store
        self._boundaries = boundaries

    def write(self, change: Callable[[Any], T]) -> T:
        """Write, between two boundaries."""
        self._boundaries.pass_one("before write")
        result = self._store.write(change)
        self._boundaries.pass_one("after write")
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class CountedExecutor:
    """An executor with a boundary before and after each call."""

    def __init__(self, executor: Executor, boundaries: Boundaries) -> None:
        """Stand before an executor."""
        self._executor = executor
        self._boundaries = boundaries

    def start(self, order: ScriptOrder, on_output: OnOutput) -> Report:
        """Start, between two boundaries."""
        return self._between(f"start of {order.step} {order.kind}", lambda: self._executor.start(order, on_output))

    def settle(self, attempt: AttemptRef, on_output: OnOutput) -> Report:
        """Settle, between two boundaries."""
        return self._between("settle", lambda: self._executor.settle(attempt, on_output))

    def stop(self, attempt: AttemptRef, on_output: OnOutput) -> Report:
        """Stop, between two boundaries."""
        return self._between("stop", lambda: self._executor.stop(attempt, on_output))

    def close(self) -> None:
        """Close."""
        self._executor.close()

    def _between(self, name: str, call: Callable[[], Report]) -> Report:
        self._boundaries.pass_one(f"before {name}")
        report = call()
        self._boundaries.pass_one(f"after {name}")
        return report


@dataclass
class CountedExecutors:
    """The same counted executor for every endpoint, or those of the service."""

    executors: Executors | None
    executor: Executor | None
    boundaries: Boundaries

    def of(self, endpoint: Endpoint) -> Executor:
        """Return the counted executor of an endpoint."""
        found = self.executor or (self.executors.of(endpoint) if self.executors else None)
        assert found is not None
        return CountedExecutor(found, self.boundaries)

    def close(self) -> None:
        """Close what was built."""
        if self.executor is not None:
            self.executor.close()
        if self.executors is not None:
            self.executors.close()


def counted(boundaries: Boundaries, *, executor: Executor | None) -> Callable[[Ports], Ports]:
    """Return what stands between the service and its ports."""

    def between(ports: Ports) -> Ports:
        executors = CountedExecutors(ports.executors if executor is None else None, executor, boundaries)
        return Ports(CountedStore(ports.store, boundaries), executors)

    return between
