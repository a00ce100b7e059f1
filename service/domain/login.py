"""How persons are known besides tokens: by an identity provider, or by a proxy that has signed them in."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from typing import Final

from service.domain.person import Role
from service.domain.person_name import person_key, scripts_that_mix

#: Names that stand for the service itself in the record.
_OUR_OWN: Final = frozenset({"unstick"})
_LONGEST_NAME: Final = 100
#: So many groups are named in a sentence.
_MOST_GROUPS: Final = 5
#: Signatures that anybody may check and only the provider can make (RFC 7518, 3.1; RFC 8037, 3.1).
ASYMMETRIC: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")


class VouchedBy(StrEnum):
    """Who says who somebody is."""

    OIDC = "oidc"
    PROXY = "proxy"


@dataclass(frozen=True)
class Identity:
    """Somebody for whom a provider or a proxy has vouched."""

    by: VouchedBy
    #: Issuer and subject are never given to another account (OpenID Connect Core 1.0, 5.7); empty for a proxy.
    issuer: str
    subject: str
    #: The name by which requester and approver are compared, the same that tokens are made for.
    person: str
    groups: frozenset[str] = frozenset()


@dataclass(frozen=True)
class KnownIdentity:
    """Which account of a provider a person is, from the first time that he has signed in."""

    issuer: str
    subject: str
    person: str


@dataclass(frozen=True)
class OidcConfig:
    """One provider, and what is asked of it."""

    #: What people call it: it stands on the button.
    name: str
    issuer: str
    client_id: str
    #: Where the client's secret is: a file, or else a variable of the environment.
    secret_file: str = ""
    secret_variable: str = ""
    person_claim: str = "preferred_username"
    groups_claim: str = "groups"
    scopes: tuple[str, ...] = ("openid", "profile")
    algorithms: tuple[str, ...] = ("RS256", "ES256")


@dataclass(frozen=True)
class ProxyConfig:
    """A proxy that signs people in and says in headers who they are. Names of headers are in lower case."""

    header: str
    secret_file: str
    #: The machines whose connections are those of the proxy.
    networks: tuple[IPv4Network | IPv6Network, ...]
    groups_header: str = ""
    secret_header: str = "x-unstick-proxy-secret"  # noqa: S105 - a name


@dataclass(frozen=True)
class LoginConfig:
    """How persons sign in to the pages besides tokens, and what their groups may do."""

    #: Where people reach the service, without a slash at the end.
    base_url: str = ""
    oidc: OidcConfig | None = None
    proxy: ProxyConfig | None = None
    groups: Mapping[str, frozenset[Role]] = field(default_factory=dict)
    #: What is said to somebody none of whose groups has a role.
    help: str = ""

    def roles_of(self, groups: Iterable[str]) -> frozenset[Role]:
        """Return what these groups may do together."""
        return frozenset().union(*(self.groups.get(group, frozenset()) for group in groups))

    def still_vouched(self, identity: Identity) -> bool:
        """Whether whoever has vouched for this identity is still asked."""
        match identity.by:
            case VouchedBy.OIDC:
                return self.oidc is not None and self.oidc.issuer == identity.issuer
            case VouchedBy.PROXY:
                return self.proxy is not None

    def no_role(self, identity: Identity) -> tuple[str, str]:
        """Return why an identity may do nothing here, and who can help, in words."""
        named = ", ".join(sorted(identity.groups)[:_MOST_GROUPS]) or "none"
        more = f" and {len(identity.groups) - _MOST_GROUPS} more" if len(identity.groups) > _MOST_GROUPS else ""
        reason = f"{identity.person} is known, and no group of his has a role here (his groups: {named}{more})."
        return reason, self.help or "Ask whoever keeps config/login.yaml to give one of them a role."


def fault_of_name(name: str) -> str:
    """Return why a name cannot be that of a person, as the end of a sentence; empty when it can.

    A colon stands in names that the record gives to what is no person, such as `cli:root`.
    """
    if not name or name != " ".join(name.split()) or len(name) > _LONGEST_NAME:
        return f"is empty, has blanks around it, or is longer than {_LONGEST_NAME} characters"
    if not name.isprintable() or ":" in name:
        return "has a colon or a sign that cannot be shown"
    mixed = scripts_that_mix(name)
    if mixed:
        return f"mixes letters that look alike ({' and '.join(one.capitalize() for one in mixed)}) in one word"
    if person_key(name) in _OUR_OWN or not person_key(name):
        return "is a name of the service itself"
    return ""
