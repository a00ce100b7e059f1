"""Show where what only reads is not kept from touching a machine: what is known before, and what its last run found.

The kernel of a machine decides when a script comes, so nothing can be promised of one that was never asked.
"""

from collections.abc import Iterator, Sequence

from service.app.ports import Reader, RunFilter
from service.app.resolve import find_node_run
from service.app.service import Service
from service.domain.plan import Plan
from service.domain.run import Attempt, AttemptState, History
from service.domain.script import unconfined_of


def show_unconfined(service: Service, plan: Plan, *, nodes: Sequence[str]) -> tuple[str, ...]:
    """Return one sentence for each; of these nodes also what the newest run there has found."""
    known = service.inventory.current().nodes
    unknown = [one for one in nodes if one not in known or not known[one].endpoint.unconfined]

    def look(reader: Reader) -> tuple[str, ...]:
        histories = [one for node in unknown for one in _newest(reader, node)]
        return tuple(sentence for one in histories for sentence in of_history(one))

    return plan.unconfined + service.store.read(look)


def of_history(history: History) -> tuple[str, ...]:
    """Return a sentence for each way in which looks of a node run were not confined; none: none is known."""
    first: dict[str, Attempt] = {}
    for attempt in history.attempts:
        if attempt.state is AttemptState.FINISHED and not attempt.acting:
            first.setdefault(unconfined_of(attempt.reason), attempt)
    node_run = history.node_run
    return tuple(
        f"{node_run.node}: {why}, in step {attempt.step} of run {node_run.run_id}"
        for why, attempt in first.items()
        if why
    )


def _newest(reader: Reader, node: str) -> Iterator[History]:
    for run in reader.runs(RunFilter(node=node), cursor=None, limit=1).items:
        yield reader.history(find_node_run(reader, run.id, node=node).id)
