"""Output of attempts: rows while a script runs, one blob by its SHA-256 afterwards."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, bindparam, delete, insert, select
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from service.domain.script import OutputChunk, Stream, sha256
from service.store.tables import blobs, output_chunks, outputs

# Statements of every script stand here ready: to put one together costs more than SQLite needs to play it.
_ADD_OUTPUT = insert(outputs)
_ADD_CHUNK = insert(output_chunks)
_SEALED = (
    select(outputs, blobs.c.data)
    .outerjoin(blobs, blobs.c.sha256 == outputs.c.blob_sha256)
    .where(outputs.c.attempt_id == bindparam("attempt"))
)
_CHUNKS = (
    select(output_chunks)
    .where(output_chunks.c.attempt_id == bindparam("attempt"))
    .order_by(output_chunks.c.stream, output_chunks.c.offset)
)
_SEALED_ENDS = select(outputs.c.stdout_end, outputs.c.stderr_end).where(outputs.c.attempt_id == bindparam("attempt"))
_LAST = (
    select(output_chunks.c.offset, output_chunks.c.length)
    .where(output_chunks.c.attempt_id == bindparam("attempt"), output_chunks.c.stream == bindparam("in_stream"))
    .order_by(output_chunks.c.offset.desc())
    .limit(1)
)
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
    held = {stream: _Held() for stream in Stream}
    sealed = _take_sealed(connection, attempt_id, held)
    chunks = _take_chunks(connection, attempt_id, held)
    data = held[Stream.STDOUT].data + held[Stream.STDERR].data
    digest = sha256(data)
    insert_once = sqlite_insert if connection.dialect.name == "sqlite" else postgres_insert
    connection.execute(insert_once(blobs).values(sha256=digest, data=data).on_conflict_do_nothing())
    if sealed:
        connection.execute(delete(outputs).where(outputs.c.attempt_id == attempt_id))
    row = {"attempt_id": attempt_id, "blob_sha256": digest, "sealed_at": at}
    for stream, part in held.items():
        row |= {f"{stream}_length": len(part.data), f"{stream}_end": part.end}
    connection.execute(_ADD_OUTPUT, row)
    if chunks:
        connection.execute(delete(output_chunks).where(output_chunks.c.attempt_id == attempt_id))
    return digest


@dataclass
class _Held:
    """What is kept of one stream, and how far it goes."""

    data: bytes = b""
    end: int = 0


def _take_sealed(connection: Connection, attempt_id: str, held: Mapping[Stream, _Held]) -> bool:
    row = connection.execute(_SEALED, {"attempt": attempt_id}).first()
    if row is None:
        return False
    data: bytes = row.data or b""
    held[Stream.STDOUT].data, held[Stream.STDERR].data = data[: row.stdout_length], data[row.stdout_length :]
    held[Stream.STDOUT].end, held[Stream.STDERR].end = row.stdout_end, row.stderr_end
    return True


def _take_chunks(connection: Connection, attempt_id: str, held: Mapping[Stream, _Held]) -> bool:
    later: dict[Stream, list[bytes]] = {stream: [] for stream in Stream}
    for row in connection.execute(_CHUNKS, {"attempt": attempt_id}):
        later[row.stream].append(row.data)
        held[row.stream].end = max(held[row.stream].end, row.offset + row.length)
    for stream, parts in later.items():
        held[stream].data += b"".join(parts)
    return any(later.values())


def _insert_part(connection: Connection, chunk: OutputChunk, *, start: int, end: int) -> None:
    if start < end:
        data = chunk.data[start - chunk.offset : end - chunk.offset]
        row = {"attempt_id": chunk.attempt_id, "stream": chunk.stream, "offset": start, "length": len(data)}
        connection.execute(_ADD_CHUNK, row | {"data": data})


def _last(connection: Connection, attempt_id: str, stream: Stream) -> int | None:
    row = connection.execute(_LAST, {"attempt": attempt_id, "in_stream": stream}).first()
    return None if row is None else row.offset + row.length


def _places(connection: Connection, attempt_id: str, stream: Stream) -> list[tuple[int, int]]:
    c = output_chunks.c
    query = _CHUNK_ENDS.where(c.attempt_id == attempt_id, c.stream == stream).order_by(c.offset)
    return [(row.offset, row.offset + row.length) for row in connection.execute(query)]


def _sealed_end(connection: Connection, attempt_id: str, stream: Stream) -> int:
    row = connection.execute(_SEALED_ENDS, {"attempt": attempt_id}).first()
    if row is None:
        return 0
    end: int = row.stdout_end if stream is Stream.STDOUT else row.stderr_end
    return end
