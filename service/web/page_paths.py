"""Which addresses are pages for people: those that a browser opens with a session, and never with a token."""

import re
from typing import Final

from starlette.datastructures import Headers
from starlette.types import Scope

SIGN_IN: Final = "/sign-in"
#: Where a browser is sent to a provider, and where it comes back.
OIDC: Final = f"{SIGN_IN}/oidc"
OIDC_BACK: Final = f"{OIDC}/back"
#: Pages that are open to whoever has not signed in.
DOORS: Final = frozenset({SIGN_IN, OIDC, OIDC_BACK})
GATES: Final = "/gates"
FLEET: Final = "/fleet"
_PAGE: Final = re.compile(r"/(?:gates|fleet|alerting)(?:/.*)?|/sign-in(?:/.*)?|/sign-out", re.DOTALL)
#: Where a person may be led after signing in: to pages of ours that only show something.
_NEXT: Final = re.compile(r"/fleet|/gates(?:/[A-Za-z0-9_-]{1,64})?")


def is_page(path: str) -> bool:
    """Whether a path belongs to the pages, whether or not there is a page at it."""
    return _PAGE.fullmatch(path) is not None


def wants_page(scope: Scope) -> bool:
    """Whether the answer is to be a page: at a page's address, for a browser."""
    return is_page(scope["path"]) and "text/html" in Headers(scope=scope).get("accept", "")


def safe_next(text: str) -> str:
    """Return where to go after signing in: the given page when it is one of ours, else the list of gates.

    What is allowed is named, so neither `//host` nor `/\\host` nor anything encoded leads elsewhere (CWE-601).
    """
    return text if _NEXT.fullmatch(text) else GATES
