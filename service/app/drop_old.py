"""Let go of what takes room once its time is over; the record of what was done stays."""

from datetime import timedelta

from service.app.service import Service

#: Outputs, and deliveries, in one transaction: few enough that nobody waits long for the writer.
BATCH = 50


def drop_old(service: Service) -> int:
    """Drop a batch of what is older than the policy keeps; return how much, 0 when there is no more."""
    keep, now = service.policy.current().keep, service.clock.now()
    outputs, deliveries = now - timedelta(days=keep.output_days), now - timedelta(days=keep.delivery_days)
    # Most often there is nothing, and then nothing is written either.
    if not service.store.read(lambda reader: reader.has_old(outputs, deliveries)):
        return 0
    return service.store.write(
        lambda transaction: (
            transaction.drop_outputs(outputs, limit=BATCH) + transaction.drop_deliveries(deliveries, limit=BATCH)
        )
    )
