"""Which executor reaches an endpoint."""

import threading
from collections.abc import Callable
from typing import assert_never

from service.app.ports import Executor
from service.domain.node import Endpoint, ExecutorKind
from service.domain.script import AttemptRef, NotStarted, OutputChunk, Report, ReportState, ScriptOrder

OnOutput = Callable[[OutputChunk], None]


class ExecutorsByKind:
    """One executor for each kind, made by whoever builds the service. Safe for many threads."""

    def __init__(self, *, local: Executor, ssh: Executor, ssm: Callable[[], Executor] | None = None) -> None:
        """Take the executors; `ssm` makes one at the first node that needs it, since AWS's library takes long to load.

        Without it such nodes are refused.
        """
        self._local = local
        self._ssh = ssh
        self._make_ssm = ssm or _no_ssm
        self._ssm: Executor | None = None
        self._lock = threading.Lock()

    def of(self, endpoint: Endpoint) -> Executor:
        """Return the executor that reaches this endpoint."""
        match endpoint.executor:
            case ExecutorKind.LOCAL:
                return self._local
            case ExecutorKind.SSH:
                return self._ssh
            case ExecutorKind.SSM:
                return self._made_ssm()
            case _:
                assert_never(endpoint.executor)

    def close(self) -> None:
        """Give up every connection."""
        self._local.close()
        self._ssh.close()
        with self._lock:
            ssm = self._ssm
        if ssm is not None:
            ssm.close()

    def _made_ssm(self) -> Executor:
        with self._lock:
            if self._ssm is None:
                self._ssm = self._make_ssm()
            return self._ssm


def _no_ssm() -> Executor:
    return RefusingExecutor("is reached by SSM, which is not spoken here", "Use `executor: ssh` in inventory.yaml.")


class RefusingExecutor:
    """Reaches nothing, and says so: proof that nothing ran."""

    def __init__(self, reason: str, way_out: str) -> None:
        """Take the end of a sentence that begins with the node, and the way out."""
        self._reason = reason
        self._way_out = way_out

    def start(self, order: ScriptOrder, on_output: OnOutput) -> Report:
        """Refuse."""
        return self._refuse(order.endpoint)

    def settle(self, attempt: AttemptRef, on_output: OnOutput) -> Report:
        """Refuse: what never left cannot have run."""
        return self._refuse(attempt.endpoint)

    def stop(self, attempt: AttemptRef, on_output: OnOutput) -> Report:
        """Refuse: what never left need not be stopped."""
        return self._refuse(attempt.endpoint)

    def close(self) -> None:
        """Do nothing."""

    def _refuse(self, endpoint: Endpoint) -> Report:
        reason = f"{endpoint.name} {self._reason}. {self._way_out}"
        return Report(ReportState.NOT_STARTED, not_started=NotStarted.REFUSED, reason=reason)
