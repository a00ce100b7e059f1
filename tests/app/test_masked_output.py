"""A secret in what a script says is not kept, however its bytes arrive, and every other byte stays at its place."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.app.masked_output import MaskedOutput
from service.domain.script import OutputChunk, Stream

TOKEN = b"unstick_0123456789abcdefghijklmnop"
SAID = (
    b"looked at /data\n\xff\x00 <script>alert(1)</script>\x1b[31m\n"
    b"UNSTICK_TOKEN=" + TOKEN + b"\n"
    b"postgresql+psycopg://unstick:hunter2@db/unstick\n"
    b'{"password": "hunter2", "pid": 4711}\n'
    b"-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\nhunter2\n-----END OPENSSH PRIVATE KEY-----\n"
    b"password: hunter2\nmax_tokens=4096\nand no line end"
)


def kept(pieces: list[bytes], *, stream: Stream = Stream.STDOUT) -> list[OutputChunk]:
    """Return what is kept of pieces that come one after the other."""
    masked, at = MaskedOutput(), 0
    found: list[OutputChunk] = []
    for piece in pieces:
        found += masked.take(OutputChunk("a1", stream, at, piece))
        at += len(piece)
    return [*found, *masked.rest()]


def joined(chunks: list[OutputChunk]) -> bytes:
    """Return the bytes, after a look at their places."""
    at = 0
    for chunk in chunks:
        assert chunk.offset == at
        at += len(chunk.data)
    return b"".join(chunk.data for chunk in chunks)


def test_s09_secrets_are_masked_and_every_other_byte_is_as_it_was() -> None:
    said = joined(kept([SAID]))

    assert len(said) == len(SAID)
    assert said.startswith(b"looked at /data\n\xff\x00 <script>alert(1)</script>\x1b[31m\nUNSTICK_TOKEN=****")
    assert said.endswith(b"\nmax_tokens=4096\nand no line end")
    assert said.count(b"\n") == SAID.count(b"\n")
    assert b"hunter2" not in said
    assert b"unstick_0123" not in said


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, len(SAID)), max_size=12))
def test_s09_a_secret_that_comes_in_pieces_is_masked_too(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(SAID)]
    pieces = [SAID[start:end] for start, end in pairwise(places)]

    chunks = kept(pieces)

    assert joined(chunks) == joined(kept([SAID]))
    assert not any(b"hunter2" in chunk.data or TOKEN[:20] in chunk.data for chunk in chunks)


def test_s09_a_line_without_an_end_is_not_held_back_for_ever() -> None:
    masked = MaskedOutput()

    chunks = [*masked.take(OutputChunk("a1", Stream.STDERR, 0, b"x" * 20_000))]

    assert [(chunk.offset, len(chunk.data)) for chunk in chunks] == [(0, 20_000 - 1024)]


def test_s09_a_secret_is_not_cut_where_a_line_without_an_end_is() -> None:
    line = b"x" * 9_000 + b" " + b"password=" + TOKEN * 40 + b" "
    said = line + b"y" * (20_000 - len(line))

    assert TOKEN not in joined(kept([said[:10_500], said[10_500:]]))


@pytest.mark.parametrize("again", [0, 5, 30])
def test_s09_what_a_node_sends_again_is_kept_again(again: int) -> None:
    masked = MaskedOutput()
    first = [*masked.take(OutputChunk("a1", Stream.STDOUT, 0, b"line\nbegun"))]

    second = [*masked.take(OutputChunk("a1", Stream.STDOUT, again, b"more\n")), *masked.rest()]

    assert [(one.offset, one.data) for one in first] == [(0, b"line\n")]
    assert [(one.offset, one.data) for one in second] == [(5, b"begun"), (again, b"more\n")]
