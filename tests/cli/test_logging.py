"""Logs are lines of JSON that nobody can forge."""

import io
import json
import logging as standard
from collections.abc import Iterator

import pytest
import structlog
import uvicorn

from service import logging


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    root = standard.getLogger()
    kept = root.handlers, root.level
    stream = io.StringIO()
    logging.configure(stream)
    yield stream
    root.handlers, root.level = kept[0], kept[1]
    structlog.reset_defaults()


def test_a_control_character_cannot_forge_a_line_or_move_the_cursor(lines: io.StringIO) -> None:
    evil = 'x\n{"event": "forged"}\x1b[2J\x7f\x9b\u202e\u2028'

    structlog.get_logger().warning("seen", reason=evil)

    text = lines.getvalue()
    assert text.count("\n") == 1
    assert text.rstrip("\n").isascii()
    assert text.rstrip("\n").isprintable()
    assert json.loads(text)["reason"] == evil


def test_an_event_tells_when_and_how_bad(lines: io.StringIO) -> None:
    structlog.get_logger("engine").error("engine.fault", node_run="a")

    event = json.loads(lines.getvalue())
    assert (event["level"], event["event"], event["node_run"], event["at"][-1]) == ("error", "engine.fault", "a", "Z")


def test_libraries_log_in_the_same_form_whatever_was_set_up_for_them_before(lines: io.StringIO) -> None:
    uvicorn.Config("service.web.app:create_app")  # the handlers of its own, which do not propagate
    logging.configure(lines)

    standard.getLogger("uvicorn.error").error("bad %s", "thing\r")

    assert json.loads(lines.getvalue())["event"] == "bad thing\r"


def test_a_connection_that_ends_is_no_error_of_the_service(lines: io.StringIO) -> None:
    standard.getLogger("paramiko.transport").error("Traceback (most recent call last): EOFError")

    assert lines.getvalue() == ""
