"""What scripts say that is no text, or too much, and what a person says that no script may be given."""

import pytest

from tests.cli.installation import Someone

ODD = """\
schema: 1
name: odd
title: Say odd things
owner: tests
description: For the tests of the command line.
steps:
  - id: bytes
    title: Bytes that are no text
    read_only: true
    timeout: 1m
    run: |
      printf 'caf\\351 \\360\\220\\215\\210 \\033]0;title\\007\\n'
  - id: much
    title: More than is kept
    read_only: true
    timeout: 1m
    run: |
      set +o pipefail
      yes 0123456789abcde | head -c 4M >&2
"""


@pytest.fixture
def run_id(ann: Someone, node: str) -> str:
    (ann.place.folder / "runbooks" / "odd.yaml").write_text(ODD)
    return ann.request("odd", node)


def test_a_byte_that_is_no_text_is_shown_by_a_sign_and_a_character_of_four_bytes_as_it_is(
    ann: Someone, run_id: str, node: str
) -> None:
    done = ann("show", run_id, "--output")

    lines = done.stdout.splitlines()
    assert ann.run(run_id)["state"] == "succeeded"
    assert lines[lines.index(f"-- {node} bytes run (0)") + 1] == "   caf\ufffd \U00010348 \\x1b]0;title\\x07"


def test_of_more_than_is_kept_the_person_is_told(ann: Someone, run_id: str) -> None:
    done = ann("show", run_id, "--output")

    (attempt,) = ann.run(run_id)["nodes"][0]["steps"][1]["attempts"]
    assert (attempt["exit_code"], attempt["truncated"], attempt["stderr_bytes"]) == (0, True, 4 * 1024 * 1024)
    assert done.stdout.splitlines()[-1] == "   (more was said than is kept)"
    assert len(done.stdout) < 2 * 1024 * 1024


def test_a_value_that_no_script_may_be_given_is_refused_in_one_sentence(ann: Someone, node: str) -> None:
    done = ann("run", "free", "--node", node, "--param", "wait=one\r\ntwo")

    assert (done.returncode, done.stdout) == (2, "")
    told, way_out = done.stderr.splitlines()
    unsafe = "It holds a control character such as a carriage return; only tab and line feed may be in it."
    assert (told, way_out) == (f"body.params.wait: {unsafe}", "/docs shows what is expected.")
