"""Takes secrets out of what is kept of a request: values under names that say so, words known by their form or value.

It is done before anything is stored, logged or shown.
"""

import re
from collections.abc import Mapping
from typing import Final

from service.domain.known_secrets import KNOWN

REDACTED: Final = "[redacted]"

_NAMED = r"(?:passw|secret|token|api_?-?key|authorization|credential|private_?-?key|signature)"
_ASSIGNED = r"(?:passw|secret|token|api_?-?key|credential|private_?-?key)"
# Bounded, so that no text makes it slow.
_KEY = rf'[^"\\]{{0,64}}{_NAMED}[^"\\]{{0,64}}'
# Where a word begins: also behind a line end as JSON writes it, and behind what a URL writes as %0A.
_BEGINS = r"(?:\b|(?<=\\[bfnrt])|(?<=%[0-9A-Fa-f]{2}))"
_SIGN: Final = re.compile(r"[^\n]")
_SAYS_SO: Final = re.compile(_NAMED, re.IGNORECASE)
#: What stands in every text, in lower case, in which there is a name that says so; the second also in an address.
_API_KEY: Final = ("apikey", "api_key", "api-key", "api_-key")
_NAMES: Final = (
    *("passw", "secret", "token", "authorization", "credential", "signature", *_API_KEY),
    *("privatekey", "private_key", "private-key", "private_-key"),
)
_IN_ADDRESS: Final = ("token=", "signature=", "secret=", "key=")
_PREFIXES: Final = ("unstick_", "whsec_", "gho_", "ghp_", "ghr_", "ghs_", "ghu_", "xox")
# Each with what stands in every text in which it finds something: to look for that costs a hundredth.
_PATTERNS: Final = (
    # A member of JSON, and one inside a text that is JSON itself, as SNS has it.
    (re.compile(rf'("{_KEY}"\s{{0,8}}:\s{{0,8}}")(?:[^"\\\n]|\\.)*', re.IGNORECASE), rf"\1{REDACTED}", _NAMES),
    (re.compile(rf'(\\"{_KEY}\\"\s{{0,8}}:\s{{0,8}}\\")[^"\\]*', re.IGNORECASE), rf"\1{REDACTED}", _NAMES),
    (
        re.compile(_BEGINS + r"(bearer|basic)\s{1,8}[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE),
        rf"\1 {REDACTED}",
        ("bearer", "basic"),
    ),
    (re.compile(r"(://[^/\s:@\"]{0,64}:)[^/\s@\"]{1,200}@"), rf"\1{REDACTED}@", ("@",)),
    (
        re.compile(r"([?&][A-Za-z_-]{0,32}(?:token|signature|secret|key)=)[^&\s\"\\]+", re.IGNORECASE),
        rf"\1{REDACTED}",
        _IN_ADDRESS,
    ),
    (
        re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^-]{0,16384}(?:-----END [A-Z ]{0,40}-----)?"),
        REDACTED,
        ("-----begin ",),
    ),
    # A variable or an option, as `env` and `ps` show it; a number such as in `max_tokens=4096` is none.
    (
        re.compile(
            rf"(?<![A-Za-z0-9_])([A-Za-z0-9_-]{{0,40}}{_ASSIGNED}[A-Za-z0-9_-]{{0,16}}=)"
            r"(?!\d{1,9}(?:\s|$))(?:\"[^\"\n]{1,400}\"|'[^'\n]{1,400}'|[^\s\"'&;]+)",
            re.IGNORECASE,
        ),
        rf"\1{REDACTED}",
        _NAMES,
    ),
    (
        re.compile(_BEGINS + r"((?:password|passwd|secret|api[_-]?key)\s{0,4}:\s{1,4})[^\s\"'&;]+", re.IGNORECASE),
        rf"\1{REDACTED}",
        ("passw", "secret", *_API_KEY),
    ),
    # Tokens of unstick, of Standard Webhooks, AWS, GitHub, Slack, and JSON Web Tokens.
    (re.compile(_BEGINS + r"(?:unstick_|whsec_|gh[pousr]_|xox[a-z]-)[A-Za-z0-9_+/=-]{16,}"), REDACTED, _PREFIXES),
    (re.compile(_BEGINS + r"(?:AKIA|ASIA)[0-9A-Z]{16}\b"), REDACTED, ("akia", "asia")),
    (re.compile(_BEGINS + r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"), REDACTED, ("eyj",)),
)
#: What stands in every text in which there is a secret that is known by its form, in lower case.
_SIGNS: Final = tuple(dict.fromkeys(sign for _, _, signs in _PATTERNS for sign in signs))
#: Letters beyond ASCII that count as one of ASCII where case does not matter (s, k, i), and that lower() does not give.
_ODD_LETTERS: Final = ("\u017f", "\u212a", "\u0130", "\u0131")
#: Without one of these, in lower case, there is no secret that is known as one: most output is looked at no further.
_HINTS: Final = (
    *(b"passw", b"secret", b"token", b"key", b"auth", b"credential", b"signature", b"bearer", b"basic", b"://"),
    *(b"unstick_", b"whsec_", b"gho_", b"ghp_", b"ghr_", b"ghs_", b"ghu_", b"xox", b"akia", b"asia", b"eyj"),
)


def redact(text: str) -> str:
    """Return the text with each secret that is known as one replaced by a sign for it."""
    if not KNOWN.knows_nothing:
        data = text.encode("utf-8", "surrogatepass")
        text = KNOWN.masked(data, REDACTED.encode()).decode("utf-8", "surrogatepass")
    lowered = _lowered(text)
    for pattern, instead, signs in _PATTERNS:
        if lowered is None or any(sign in lowered for sign in signs):
            text = pattern.sub(instead, text)
    return text


def _lowered(text: str) -> str | None:
    """Return a text in which signs are looked for; None for one in which they may be written in other letters."""
    if not text.isascii() and any(letter in text for letter in _ODD_LETTERS):
        return None
    return text.lower()


def mask(data: bytes) -> bytes:
    """Return bytes of the same length in which each secret that is known as one is stars; line ends stay.

    Output of a script is kept by its place in it, so that nothing in it may become longer or shorter.
    """
    data = KNOWN.masked(data, None)
    lowered = data.lower()
    if not any(hint in lowered for hint in _HINTS):
        return data
    # Each byte is one sign of this encoding.
    text = data.decode("latin-1")
    for pattern, _, _ in _PATTERNS:
        text = pattern.sub(_stars, text)
    return text.encode("latin-1")


def _stars(found: re.Match[str]) -> str:
    named = found[1] if found.re.groups else ""
    return named + _SIGN.sub("*", found[0][len(named) :])


def redact_members(members: Mapping[str, str]) -> Mapping[str, str]:
    """Return named values without secrets: a whole value is one when its name says so."""
    if _has_none("\n".join([*members.keys(), *members.values()])):
        return dict(members)
    return {name: REDACTED if value and _SAYS_SO.search(name) else redact(value) for name, value in members.items()}


def _has_none(text: str) -> bool:
    """Whether there is surely no secret in a text, nor in any part of it."""
    if not KNOWN.surely_not_in(text):
        return False
    lowered = _lowered(text)
    return lowered is not None and not any(sign in lowered for sign in _SIGNS)


def redact_bytes(data: bytes) -> bytes:
    """Return the bytes without secrets; what is no UTF-8 stays as it is."""
    return redact(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
