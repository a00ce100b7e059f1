"""YAML is read strictly: what two readers could understand differently is refused, with a line and a way out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.app.finding import Finding
from service.app.runbook_yaml import MAX_BYTES, MAX_DEPTH, MAX_NODES, Document, decode, read_document


def values(text: str) -> object:
    document = read_document(text, "a.yaml")
    assert isinstance(document, Document), document
    return document.value


def refusal(text: str) -> Finding:
    found = read_document(text, "a.yaml")
    assert isinstance(found, Finding), found
    return found


def test_words_that_yaml_1_1_takes_for_booleans_stay_text() -> None:
    text = "name: ghost-vram\non:\n  alertname: GhostVRAM\nregion: NO\ndefault: off\nanswer: y\nyes: True\n"

    read = values(text)

    assert read == {
        "name": "ghost-vram",
        "on": {"alertname": "GhostVRAM"},
        "region": "NO",
        "default": "off",
        "answer": "y",
        "yes": "True",
    }


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("true", True),
        ("false", False),
        ("7", 7),
        ("-7", -7),
        ("0", 0),
        ("1.5", 1.5),
        ("1:30", "1:30"),
        ("09:30", "09:30"),
        ("1e1", "1e1"),
        ("1.0e+3", "1.0e+3"),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("010", "010"),
        ("0x10", "0x10"),
        ("1_000", "1_000"),
        ("+1", "+1"),
        ("2026-11-29", "2026-11-29"),
        ("=", "="),
        ("'7'", "7"),
        ('"true"', "true"),
        ("9" * 30, "9" * 30),
    ],
)
def test_a_scalar_means_what_it_looks_like(written: str, meant: object) -> None:
    read = values(f"key: {written}\n")

    assert (read, type(read["key"])) == ({"key": meant}, type(meant))  # type: ignore[index]


def test_braces_are_plain_text_in_quotes_and_blocks() -> None:
    read = values('a: "ctr t ls --format {{.ID}}"\nb: |\n  echo {{ node }} #7\n')

    assert read == {"a": "ctr t ls --format {{.ID}}", "b": "echo {{ node }} #7\n"}


def test_a_byte_order_mark_and_crlf_are_accepted_and_a_block_gets_plain_line_ends() -> None:
    data = b"\xef\xbb\xbfrun: |\r\n  echo a\r\n  echo b\r\n"

    text = decode(data, "a.yaml")

    assert isinstance(text, str)
    assert values(text) == {"run": "echo a\necho b\n"}


@pytest.mark.parametrize(
    ("text", "line", "reason", "way_out"),
    [
        ("", 1, "The file is empty.", "Write a document, or remove the file."),
        ("# only words\n", 1, "The file is empty.", "Write a document, or remove the file."),
        ("---\n", 1, "The file is empty.", "Write a document, or remove the file."),
        ("a: 1\n---\nb: 2\n", 2, "A second document begins here.", "Write one document in each file."),
        ("a: 1\nb:\n\tc: 2\n", 3, "A tab stands where YAML wants spaces.", "Indent with spaces."),
        ("a: 1\nb: 2\na: 3\n", 3, "The key `a` appears twice, first in line 1.", "Remove one."),
        ("null: 1\n", 1, "The key `null` is not text.", "Quote it."),
        ("a:\n  1: 2\n", 2, "The key `1` is not text.", "Quote it."),
        ("true: 2\n", 1, "The key `true` is not text.", "Quote it."),
        ("%YAML 1.1\n---\na: 1\n", 1, "The file begins with a YAML directive.", "Remove the line that begins with %."),
        ("a: 1\n<<: {b: 2}\n", 2, "`<<` merges mappings.", "Merge keys are not accepted: write the values out."),
        ('a: "x\\r\\n"\n', 1, "The text holds a carriage return.", "Take it out, or write it in the script."),
        ("a: 1\rb: 2\n", 1, "The file holds a carriage return.", "Save the file with Unix line ends."),
        ("a: b\nc: \x07\n", 2, "The file holds the invisible character U+0007.", "Take it out."),
        ("a: b\nc: x\u202ey\n", 2, "The file holds the invisible character U+202E.", "Take it out."),
        ("a: b\nc: x\u2028y\n", 2, "The file holds a line separator.", "Take it out."),
        ("a: [1\nb: 2\n", 2, "A comma is missing here, or a bracket or brace is not closed.", "Mend it."),
        (
            'a: "\\ud800"\n',
            1,
            "The text holds the invisible character U+D800.",
            "Take it out, or write it in the script.",
        ),
        ("a: 'open\nb: 1\n", 1, "A quote is opened and never closed.", "Close it."),
        ("a: 1\nb: [1\n", 2, "A bracket or brace is opened and never closed.", "Close it."),
    ],
)
def test_a_text_that_could_mislead_is_refused_with_its_line(text: str, line: int, reason: str, way_out: str) -> None:
    found = refusal(text)

    assert found == Finding("a.yaml", line, reason, way_out)


QUOTE = "Quote it, or write it as a block after `|`."


@pytest.mark.parametrize(
    ("text", "reason", "way_out"),
    [
        ("run: echo state: up", "There is a second `: ` in this line, or the indentation is off.", QUOTE),
        (
            "run: {{ node }}",
            "A key is a mapping or a list; braces are plain text only in quotes.",
            QUOTE,
        ),
        ("run: *.log", "`*` or `&` begins a value.", QUOTE),
        ("run: *log", "`*log` is an alias.", f"Aliases are not accepted. {QUOTE}"),
        ("run: &a b", "`&a` is an anchor.", f"Anchors are not accepted. {QUOTE}"),
        ("run: !!str 1", "`tag:yaml.org,2002:str` is a tag.", f"Tags are not accepted. {QUOTE}"),
        ("run: !x 1", "`!x` is a tag.", f"Tags are not accepted. {QUOTE}"),
        ("run: %date", "A value begins with %, which is a sign of YAML.", QUOTE),
        ("run: @reboot", "A value begins with @, which is a sign of YAML.", QUOTE),
        ("run: `date`", "A value begins with `, which is a sign of YAML.", QUOTE),
    ],
)
def test_a_command_that_yaml_would_misread_is_refused_with_the_advice_to_quote(
    text: str, reason: str, way_out: str
) -> None:
    found = refusal(f"a: 1\n{text}\n")

    assert found == Finding("a.yaml", 2, reason, way_out)


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x,x,x,x,x,x,x,x,x]\n"
        + "".join(f"{chr(98 + n)}: &{chr(98 + n)} [{','.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(8)),
        "a: &a [*a]\n",
        "a: &a {x: 1}\nb: &b {<<: *a}\nc: {<<: *b}\n",
    ],
    ids=["nine levels of nine", "itself", "merged"],
)
def test_a_bomb_of_aliases_is_refused_at_its_first_anchor(text: str) -> None:
    found = refusal(text)

    assert (found.line, found.reason) == (1, "`&a` is an anchor.")


def test_s07_size_nodes_and_depth_are_bounded() -> None:
    bytes_, nodes, depth = MAX_BYTES + 1, MAX_NODES, MAX_DEPTH + 1

    found = [refusal("a" * bytes_), refusal("- a\n" * nodes), refusal("[" * depth + "a" + "]" * depth)]

    assert [finding.reason for finding in found] == [
        f"The file has {bytes_} bytes; {MAX_BYTES} are accepted.",
        f"The file has more than {MAX_NODES} values.",
        f"Values are nested more than {MAX_DEPTH} deep.",
    ]


@pytest.mark.parametrize(
    ("data", "line", "reason"),
    [
        ("a: 1\n".encode("utf-16"), 1, "The file is not UTF-8 but looks like UTF-16."),
        ("a: 1\n".encode("utf-16-be"), 1, "The file is not UTF-8 but looks like UTF-16."),
        (b"a: 1\nb: \xff\n", 2, "Byte 8 is not UTF-8."),
        (b"a" * (MAX_BYTES + 1), 1, f"The file has {MAX_BYTES + 1} bytes; {MAX_BYTES} are accepted."),
    ],
)
def test_bytes_that_are_no_utf_8_are_refused(data: bytes, line: int, reason: str) -> None:
    found = decode(data, "a.yaml")

    assert isinstance(found, Finding)
    assert (found.line, found.reason) == (line, reason)


def test_a_document_knows_where_each_value_stands_and_how_it_was_written() -> None:
    text = "a: 1\nsteps:\n  - run: |\n      one\n      two\n  - run: pkill -f worker #7\n"

    document = read_document(text, "a.yaml")

    assert isinstance(document, Document)
    block, plain = document.texts[("steps", 0, "run")], document.texts[("steps", 1, "run")]
    assert (block.line, block.style, block.cut) == (4, "|", False)
    assert (plain.line, plain.style, plain.cut) == (6, "", True)
    assert document.line(("steps", 1, "absent")) == 6


YAML_PIECES = st.sampled_from(
    ["a: ", "- ", "\n", "  ", "\t", "|", ">", "&a ", "*a", "!t ", "{", "}", "[", "]", "'", '"', "\\", "\\u", "#", "? ",
     ": ", "---\n", "...\n", "%YAML 1.1\n", "%TAG ! x\n", "<<: ", "\ufeff", "\r\n", "\x85", "\u2028", "1.5", "~", ",",
     "true", "x", "\\x00", "\\UFFFFFFFF", "|2-", "key"]
)  # fmt: skip


@given(st.lists(YAML_PIECES | st.text(max_size=3), max_size=40).map("".join))
def test_any_text_is_read_or_refused_and_nothing_else(text: str) -> None:
    found = read_document(text, "a.yaml")

    assert isinstance(found, Document | Finding)
    if isinstance(found, Finding):
        assert 1 <= found.line <= text.count("\n") + text.count("\r") + 2
        assert found.reason.endswith(".")
        assert found.way_out.endswith(".")


@given(st.binary(max_size=200))
def test_any_bytes_are_decoded_or_refused(data: bytes) -> None:
    found = decode(data, "a.yaml")

    assert found.encode() == data if isinstance(found, str) else found.line >= 1
