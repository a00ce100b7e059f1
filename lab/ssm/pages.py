"""Pages of lists, and the tokens that lead to the next one; a token is good for some time, and for the same request."""

import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from lab.ssm.errors import Refusal
from lab.ssm.state import State

Item = TypeVar("Item")


def page(
    state: State,
    request: dict[str, Any],
    items: Sequence[Item],
    *,
    key: Callable[[Item], str],
    default: int = 50,
) -> tuple[list[Item], dict[str, str]]:
    """Cut one page out of sorted items; give it, and the NextToken if there is more."""
    about = _about(request)
    after = _read(state, request["NextToken"], about) if request.get("NextToken") else None
    start = 0
    if after is not None:
        start = next((number + 1 for number, item in enumerate(items) if key(item) == after), len(items))
    most = request.get("MaxResults", default)
    chosen = list(items[start : start + most])
    if start + most >= len(items):
        return chosen, {}
    token = json.dumps({"after": key(chosen[-1]), "about": about, "at": state.now()})
    return chosen, {"NextToken": base64.urlsafe_b64encode(token.encode()).decode()}


def _read(state: State, token: str, about: str) -> str:
    try:
        facts = json.loads(base64.urlsafe_b64decode(token))
        at, after = float(facts["at"]), str(facts["after"])
    except (binascii.Error, ValueError, KeyError, TypeError) as unreadable:
        raise _invalid() from unreadable
    if facts.get("about") != about or state.now() - at > state.timing.token:
        raise _invalid()
    return after


def _about(request: dict[str, Any]) -> str:
    """Name what the list is of, without where in it."""
    rest = {name: value for name, value in request.items() if name not in ("NextToken", "MaxResults")}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()[:16]


def _invalid() -> Refusal:
    return Refusal("InvalidNextToken", "The specified token is not valid.")
