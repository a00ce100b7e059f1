"""The order of a look that no run asked for: it reads, changes nothing, and leaves no attempt in the record."""

from datetime import timedelta

from service.app.ports import Clock
from service.domain.node import Endpoint
from service.domain.script import ScriptKind, ScriptOrder


def look_order(
    endpoint: Endpoint,
    text: str,
    clock: Clock,
    *,
    run_id: str,
    step: str,
    timeout: timedelta,
    valid_for: timedelta,
    service_id: str,
) -> ScriptOrder:
    """Return the order under which a rendered script looks at a machine, dated now."""
    now = clock.now()
    return ScriptOrder(
        attempt_id=clock.new_id(),
        run_id=run_id,
        step=step,
        kind=ScriptKind.CHECK,
        endpoint=endpoint,
        text=text,
        targets=(),
        acting=False,
        timeout=timeout,
        not_after=now + valid_for,
        sent_at=now,
        service_id=service_id,
        dry_run=True,
    )
