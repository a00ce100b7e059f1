"""Regular expressions that no value keeps busy: RE2 needs time in proportion to the text, whatever the expression.

Python's own may try more ways than there are seconds (`(a+)+` against a long value), and holds its interpreter
meanwhile. RE2 has neither look-around nor back-references, and \\d, \\w and \\s mean ASCII alone
(https://github.com/google/re2/wiki/Syntax).
"""

from functools import lru_cache
from typing import Any

import re2

from service.domain.errors import InvalidInput

_OPTIONS = re2.Options()
#: What is wrong is told by the error; on standard error it would only be noise.
_OPTIONS.log_errors = False


def check_pattern(pattern: str) -> None:
    """Raise InvalidInput for text that is no expression of RE2's; its reason goes on after the name of the key."""
    try:
        _compiled(pattern)
    except re2.error as error:
        detail = error.args[0] if error.args else "it cannot be read"
        told = detail.decode("utf-8", "replace") if isinstance(detail, bytes) else str(detail)
        raise InvalidInput(
            f"is not what RE2 reads: {told}.",
            "Write it without look-around (?=...), back-references \\1 and counts above 1000; RE2 has none of them.",
        ) from error
    except UnicodeEncodeError as error:
        raise InvalidInput("holds half a character (a lone surrogate).", "Take it out.") from error


def matches(pattern: str, text: str) -> bool:
    """Tell whether the whole text matches; text without lone surrogates."""
    return _compiled(pattern).fullmatch(text) is not None


def masked(pattern: str, text: bytes, instead: bytes | None) -> bytes:
    """Return UTF-8 with `instead` for each place that matches; None: as many stars as it has bytes, line ends kept.

    Bytes that are no UTF-8 match nothing, and stay.
    """

    def sign(found: Any) -> bytes:
        there: bytes = found.group(0)
        return instead if instead is not None else b"\n".join(b"*" * len(line) for line in there.split(b"\n"))

    result: bytes = _compiled_bytes(pattern).sub(sign, text)
    return result


@lru_cache(maxsize=256)
def _compiled_bytes(pattern: str) -> Any:
    return re2.compile(pattern.encode(), _OPTIONS)


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:
    return re2.compile(pattern, _OPTIONS)
