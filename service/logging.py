"""Logs: one JSON object a line on standard error, for machines; the audit is for people.

Nothing that somebody sent can forge a line or move a cursor: every character beyond printable ASCII
is escaped (CWE-117).
"""

import json
import logging
import sys
from collections.abc import Mapping
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor

from service.domain.redaction import redact

_DELETE = "\x7f"


def configure(stream: TextIO | None = None, *, level: int = logging.INFO) -> None:
    """Send the events of structlog and of the standard library to a stream, standard error by default."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
    ]
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            _as_line,
        ],
    )
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    _quiet_libraries()
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


def _quiet_libraries() -> None:
    """Let libraries speak through us, and only of what went wrong."""
    for own in ("uvicorn", "uvicorn.access", "uvicorn.error"):
        # What another has set up for them in this process would go around us, line ends and all.
        logging.getLogger(own).handlers, logging.getLogger(own).propagate = [], True
    for chatty in ("uvicorn.access", "uvicorn.error", "httpx", "httpcore", "paramiko", "alembic"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    # It calls every connection that ends an error, with a traceback: each reboot of a node is one. What went wrong
    # for a script stands in its report.
    logging.getLogger("paramiko.transport").setLevel(logging.CRITICAL)


def _as_line(_logger: Any, _method: str, event: EventDict) -> str:
    """Return one event as one line of ASCII."""
    ordered = {"at": event.pop("at", ""), "level": event.pop("level", ""), "event": event.pop("event", ""), **event}
    return json.dumps(_clean(ordered), default=str, ensure_ascii=True).replace(_DELETE, "\\u007f")


def _clean(value: object) -> object:
    """Return a value without secrets: the text of an error may quote whatever it stumbled over."""
    if isinstance(value, Mapping):
        return {str(name): _clean(one) for name, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_clean(one) for one in value]
    return value if value is None or isinstance(value, int | float) else redact(str(value))
