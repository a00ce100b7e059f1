"""Output of attempts: rows while a script runs, one blob by its SHA-256 afterwards."""

from datetime import datetime

from sqlalchemy import Connection, delete, insert, select
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from service.domain.script import OutputChunk, Stream, sha256
from service.store.tables import blobs, output_chunks, outputs

_CHUNK_ENDS = select(output_chunks.c.offset, output_chunks.c.length)


def kept(connection: Connection, attempt_id: str, stream: Stream) -> bytes:
    """Return what is kept of a stream: the sealed part, and what came after it was sealed."""
    c = output_chunks.c
    query = select(c.data).where(c.attempt_id == attempt_id, c.stream == stream).order_by(c.offset)
    later = b"".join(connection.execute(query).scalars())
    query = select(outputs, blobs.c.data).outerjoin(blobs, blobs.c.sha256 == outputs.c.blob_sha256)
    row = connection.execute(query.where(outputs.c.attempt_id == attempt_id)).first()
    if row is None or row.data is None:
        return later
    data: bytes = row.data
    match stream:
        case Stream.STDOUT:
            return data[: row.stdout_length] + later
        case Stream.STDERR:
            return data[row.stdout_length :] + later


def add(connection: Connection, chunk: OutputChunk) -> None:
    """Keep the bytes of a chunk that are not there yet: after a lost link the node sends some again."""
    end = chunk.offset + len(chunk.data)
    start = chunk.offset
    held = _sealed_end(connection, chunk.attempt_id, chunk.stream)
    last = _last(connection, chunk.attempt_id, chunk.stream)
    if last is None or start >= last:
        _insert_part(connection, chunk, start=max(start, held), end=end)
        return
    for other_start, other_end in _places(connection, chunk.attempt_id, chunk.stream):
        _insert_part(connection, chunk, start=max(start, held), end=min(end, other_start))
        start = max(start, other_end)
    _insert_part(connection, chunk, start=max(start, held), end=end)


def seal(connection: Connection, attempt_id: str, *, at: datetime) -> str:
    """Turn the output into one blob, stdout before stderr; return its SHA-256."""
    streams = {stream: kept(connection, attempt_id, stream) for stream in Stream}
    ends = {stream: _end(connection, attempt_id, stream) for stream in Stream}
    data = streams[Stream.STDOUT] + streams[Stream.STDERR]
    digest = sha256(data)
    insert_once = sqlite_insert if connection.dialect.name == "sqlite" else postgres_insert
    connection.execute(insert_once(blobs).values(sha256=digest, data=data).on_conflict_do_nothing())
    connection.execute(delete(outputs).where(outputs.c.attempt_id == attempt_id))
    connection.execute(
        insert(outputs).values(
            attempt_id=attempt_id,
            blob_sha256=digest,
            stdout_length=len(streams[Stream.STDOUT]),
            stderr_length=len(streams[Stream.STDERR]),
            stdout_end=ends[Stream.STDOUT],
            stderr_end=ends[Stream.STDERR],
            sealed_at=at,
        )
    )
    connection.execute(delete(output_chunks).where(output_chunks.c.attempt_id == attempt_id))
    return digest


def _insert_part(connection: Connection, chunk: OutputChunk, *, start: int, end: int) -> None:
    if start < end:
        data = chunk.data[start - chunk.offset : end - chunk.offset]
        connection.execute(
            insert(output_chunks).values(
                attempt_id=chunk.attempt_id, stream=chunk.stream, offset=start, length=len(data), data=data
            )
        )


def _last(connection: Connection, attempt_id: str, stream: Stream) -> int | None:
    c = output_chunks.c
    query = _CHUNK_ENDS.where(c.attempt_id == attempt_id, c.stream == stream).order_by(c.offset.desc()).limit(1)
    row = connection.execute(query).first()
    return None if row is None else row.offset + row.length


def _places(connection: Connection, attempt_id: str, stream: Stream) -> list[tuple[int, int]]:
    c = output_chunks.c
    query = _CHUNK_ENDS.where(c.attempt_id == attempt_id, c.stream == stream).order_by(c.offset)
    return [(row.offset, row.offset + row.length) for row in connection.execute(query)]


def _sealed_end(connection: Connection, attempt_id: str, stream: Stream) -> int:
    column = outputs.c.stdout_end if stream is Stream.STDOUT else outputs.c.stderr_end
    return connection.execute(select(column).where(outputs.c.attempt_id == attempt_id)).scalar() or 0


def _end(connection: Connection, attempt_id: str, stream: Stream) -> int:
    return max(_sealed_end(connection, attempt_id, stream), _last(connection, attempt_id, stream) or 0)
