"""Which addresses may be spoken to: by TLS, or on this machine."""

from typing import Final
from urllib.parse import urlsplit

from service.domain.errors import ConfigInvalid

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


def check_url(url: str, *, what: str) -> None:
    """Return when an address is a web address that may be used; ConfigInvalid never shows the address."""
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigInvalid(f"{what} is no web address.", "Write https://HOST/PATH.") from error
    if parts.scheme not in ("https", "http") or not host:
        raise ConfigInvalid(f"{what} is no web address.", "Write https://HOST/PATH.")
    if parts.scheme == "http" and host not in LOOPBACK:
        raise ConfigInvalid(f"{what} begins with http, so that everybody on the way could read.", "Write https.")
    if parts.username is not None or parts.password is not None:
        raise ConfigInvalid(f"{what} holds a user or a password.", "A signature proves who sends; leave them out.")
    if parts.fragment:
        raise ConfigInvalid(f"{what} has a part after `#`.", "Leave it out.")
