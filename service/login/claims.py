"""What an ID token says of a person: the name, and the groups."""

from collections.abc import Mapping
from typing import Any, Final

from service.domain.errors import Unauthenticated
from service.domain.login import OidcConfig

_MOST_GROUPS: Final = 1000
_HELP: Final = "Ask whoever keeps config/login.yaml, and the provider."


def person_in(claims: Mapping[str, Any], config: OidcConfig) -> str:
    """Return the person's name; Unauthenticated without one, or for an e-mail address that nobody has verified."""
    name = claim_of(claims, config.person_claim)
    if not isinstance(name, str) or not name:
        raise Unauthenticated(f"{config.name} does not say your name (claim {config.person_claim}).", _HELP)
    # Core 1.0, 5.1 and 5.7: an address may be given to another, and one that was not verified to anybody.
    if config.person_claim == "email" and claims.get("email_verified") is not True:
        raise Unauthenticated(f"{config.name} has not verified your e-mail address, which is your name here.", _HELP)
    return name


def groups_in(value: object, config: OidcConfig) -> frozenset[str]:
    """Return the groups; Unauthenticated when the claim holds something else."""
    groups = [value] if isinstance(value, str) else value
    if groups is None:
        return frozenset()
    if not isinstance(groups, list) or len(groups) > _MOST_GROUPS or not all(isinstance(one, str) for one in groups):
        raise Unauthenticated(f"{config.name} does not list your groups (claim {config.groups_claim}).", _HELP)
    return frozenset(groups)


def claim_of(claims: Mapping[str, Any], name: str) -> Any:
    """Return a claim; a dot leads into an object, such as `realm_access.roles`, where no claim has the whole name."""
    if name in claims:
        return claims[name]
    value: Any = claims
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value
