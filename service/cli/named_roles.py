"""Roles as people type them: a word that is none is told what each of them may."""

from service.domain.errors import InvalidInput
from service.domain.person import Permission, Role, granted


def read_role(word: str) -> Role:
    """Return the role of this name; InvalidInput with all that there are."""
    try:
        return Role(word)
    except ValueError as error:
        raise InvalidInput(f"There is no role {word!r}.", f"The roles, and what each may: {_all()}.") from error


def _all() -> str:
    return "; ".join(f"{role}: {', '.join(one for one in Permission if one in granted(role))}" for role in Role)
