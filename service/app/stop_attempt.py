"""Stop the script that is under way for a cancelled node run, beside the thread that follows it."""

from service.app.driven import load
from service.app.send_script import endpoint_of, held_output
from service.app.service import Service
from service.domain.script import AttemptRef, OutputChunk


def stop_attempt(service: Service, node_run_id: str) -> bool:
    """Tell the node to end the open script of a node run; True when there was one to stop.

    What comes of it is recorded by whoever follows the attempt. An always step is not stopped.
    """
    history = service.store.read(lambda reader: reader.history(node_run_id))
    driven = load(service, history.node_run)
    for attempt in history.attempts:
        if not attempt.state.open or driven.runbook.step(attempt.step).always:
            continue
        planned = driven.planned(attempt.step, attempt.kind)
        endpoint = endpoint_of(service, history.node_run, machine=planned.machine)
        ref = AttemptRef(attempt.id, endpoint, attempt.boot_id, held_output(service, attempt.id))
        service.executors.of(endpoint).stop(ref, _ignore)
        return True
    return False


def _ignore(chunk: OutputChunk) -> None:
    """Leave the output to the thread that follows the attempt."""
