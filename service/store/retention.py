"""What may go after a while: the bytes of outputs. The chain, and what became of each run, stay."""

from datetime import datetime

from sqlalchemy import Connection, delete, exists, select

from service.store.tables import blobs, outputs


def drop_outputs(connection: Connection, before: datetime, *, limit: int) -> list[tuple[str, str]]:
    """Drop the oldest outputs that were sealed before a time; return attempt and SHA-256 of each.

    A blob that another output shares stays for that one.
    """
    c = outputs.c
    query = select(c.attempt_id, c.blob_sha256).where(c.sealed_at < before).order_by(c.sealed_at).limit(limit)
    dropped = [(row.attempt_id, row.blob_sha256) for row in connection.execute(query)]
    if dropped:
        connection.execute(delete(outputs).where(c.attempt_id.in_([attempt_id for attempt_id, _ in dropped])))
        unshared = ~exists().where(c.blob_sha256 == blobs.c.sha256)
        digests = {digest for _, digest in dropped}
        connection.execute(delete(blobs).where(blobs.c.sha256.in_(digests), unshared))
    return dropped
