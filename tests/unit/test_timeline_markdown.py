"""A timeline as Markdown: whoever reads it sees each text as it is, and whoever reads the source is not disturbed."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from service.app.timeline import Entry, as_markdown, escaped

TARGET = "connection 57 since 2026-11-29+15:46:54 mount_id 812 device 0:57 fstype fuse.rclone mountpoint /data/a_b"


def table(text: str) -> str:
    entry = Entry(datetime(2026, 11, 29, tzinfo=UTC), 1, "ann", "", "a.b", "id1", "gpu_01", "abort-dead", text)
    return "".join(as_markdown([entry], title="Run id1"))


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (f"Run is sent; targets: {TARGET}.", f"Run is sent; targets: {TARGET}."),
        ("could_not_look, a__b, é_é, 1_2", "could_not_look, a__b, é_é, 1_2"),
        ("_a_ b_ _c __init__ a_", r"\_a\_ b\_ \_c \_\_init\_\_ a\_"),
        ("(_x_)", r"(\_x\_)"),
        ("R&D, a && b, &lt; &#60;", r"R&D, a && b, \&lt; &\#60;"),
        (r"/mnt/my\040data", r"/mnt/my\\040data"),
        ("exit 1: 'x|y' <b> *no* `id` [a](b) ~~c~~", r"exit 1: 'x\|y' \<b\> \*no\* \`id\` \[a\](b) \~\~c\~\~"),
    ],
)
def test_only_what_markdown_would_take_for_more_is_escaped(text: str, written: str) -> None:
    assert escaped(text) == written
    assert table(text).splitlines()[-1] == (f"| 2026-11-29 00:00:00.000 | ann | {written} | gpu_01 | abort-dead |")


def shown(tokens: list[Token]) -> list[str]:
    """Return the text of every cell and heading; anything but text in one is named instead."""
    found = []
    for token in tokens:
        if token.type == "inline":
            found.append(
                "".join(one.content if one.type == "text" else f"<{one.type}>" for one in token.children or ())
            )
    return found


@given(st.lists(st.sampled_from([*"_*`~[]()<>!#&;|\\{}-+ax1é. ", "&lt;", "__", "**", "http://"]), max_size=20))
def test_a_reader_of_markdown_shows_any_text_as_it_is(pieces: list[str]) -> None:
    text = "".join(pieces).strip()

    cells = shown(MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(table(text)))

    assert cells[-5:] == ["2026-11-29 00:00:00.000", "ann", text, "gpu_01", "abort-dead"]
