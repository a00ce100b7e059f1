"""What the demo prints where nobody watches a terminal."""

import io

from lab.demo_words import INDENT, Words


def test_a_log_names_what_is_waited_for_before_it_ends() -> None:
    out = io.StringIO()

    with Words(out).waiting("building"):
        meanwhile = out.getvalue()

    assert (meanwhile, out.getvalue().startswith(f"{INDENT}building "), out.getvalue().endswith(" s\n")) == (
        f"{INDENT}building",
        True,
        True,
    )
