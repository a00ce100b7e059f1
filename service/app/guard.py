"""The guard at the executor port: nothing that changes a node leaves in a dry run, or unbound."""

from collections.abc import Callable

from service.app.ports import Executor
from service.domain.errors import BrokenRule
from service.domain.script import AttemptRef, OutputChunk, Report, ScriptKind, ScriptOrder


class GuardedExecutor:
    """An executor behind which no acting order of a dry run gets, whoever asks."""

    def __init__(self, executor: Executor) -> None:
        """Stand before an executor."""
        self._executor = executor

    def start(self, order: ScriptOrder, on_output: Callable[[OutputChunk], None]) -> Report:
        """Start a script, unless it would act in a dry run or is not bound to a boot.

        Raises BrokenRule: our own code has asked for what it must never ask for.
        """
        if order.dry_run and order.acting:
            raise BrokenRule(f"An acting {order.kind} of step {order.step} was asked for in a dry run.")
        if order.acting and order.kind is not ScriptKind.RUN:
            raise BrokenRule(f"The {order.kind} of step {order.step} was asked to act.")
        if order.acting and not order.boot_id:
            raise BrokenRule(f"The run of step {order.step} is not bound to a boot of the node.")
        return self._executor.start(order, on_output)

    def settle(self, attempt: AttemptRef, on_output: Callable[[OutputChunk], None]) -> Report:
        """Ask how an attempt stands."""
        return self._executor.settle(attempt, on_output)

    def stop(self, attempt: AttemptRef, on_output: Callable[[OutputChunk], None]) -> Report:
        """End the script of an attempt."""
        return self._executor.stop(attempt, on_output)

    def close(self) -> None:
        """Give up connections."""
        self._executor.close()
