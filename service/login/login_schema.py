"""The keys of login.yaml and what each may hold, as pydantic models; what they say together is in `login_file`."""

from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, StringConstraints, WithJsonSchema

from service.app.runbook_json_schema import DIALECT, clean
from service.app.runbook_schema import Entry, Line, refuse, shown
from service.app.web_addresses import check_url
from service.domain.errors import ConfigInvalid
from service.domain.login import ASYMMETRIC, OidcConfig
from service.domain.person import Role


def _web_address(value: object) -> str:
    if not isinstance(value, str):
        raise refuse(f"is {shown(value)}", "Write https://HOST.")
    try:
        check_url(value, what="It")
    except ConfigInvalid as error:
        raise refuse(f"cannot be used. {error.reason.removesuffix('.')}", error.way_out) from error
    if "?" in value:
        raise refuse("has a part after `?`", "Leave it out.")
    return value


def _network(value: object) -> IPv4Network | IPv6Network:
    try:
        network = ip_network(str(value))
    except ValueError as error:
        way_out = "Write an address or a network, such as 127.0.0.1/32."
        raise refuse(f"is {shown(value)}, which is no network", way_out) from error
    if network.prefixlen == 0:
        raise refuse("is everybody", "Name the machine of the proxy.")
    return network


def _header(value: object) -> str:
    if not isinstance(value, str):
        raise refuse(f"is {shown(value)}", "Write the name of a header.")
    if value.lower() in _TAKEN:
        raise refuse(f"is {shown(value)}, which means something else", "Let the proxy set a header of its own.")
    return value


#: Headers that a browser may set, or that say something else to a server.
_TAKEN = frozenset({"authorization", "cookie", "host", "origin", "referer", "user-agent", "x-forwarded-for"})

WebAddress = Annotated[str, BeforeValidator(_web_address), WithJsonSchema({"type": "string", "format": "uri"})]
Network = Annotated[IPv4Network | IPv6Network, BeforeValidator(_network), WithJsonSchema({"type": "string"})]
Header = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,63}$"), BeforeValidator(_header)]
Claim = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.:/-]{1,100}$")]
Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,100}$")]
_Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
_OIDC = OidcConfig("", "", "")


class OidcEntry(Entry):
    """A provider of identities, by OpenID Connect."""

    name: Line = Field(description="What people call it; it stands on the button.")
    issuer: WebAddress = Field(description="The issuer, exactly as its discovery document says it.")
    client_id: Line = Field(description="How it calls this service.")
    client_secret_file: Line | None = Field(default=None, description="A file with the client's secret, mode 0600.")
    client_secret_env: Variable | None = Field(default=None, description="Or the variable that holds it.")
    person_claim: Claim = Field(
        default=_OIDC.person_claim,
        description="Which claim is the person's name: the same name as in `unstick token create --person`, "
        "and one that people cannot change themselves.",
    )
    groups_claim: Claim = Field(default=_OIDC.groups_claim, description="Which claim lists the groups.")
    scopes: Annotated[list[Claim], Field(max_length=20)] = Field(
        default=list(_OIDC.scopes), description="What is asked for; `openid` always."
    )
    algorithms: Annotated[list[_Algorithm], Field(min_length=1, max_length=len(ASYMMETRIC))] = Field(
        default=["RS256", "ES256"], description="The signatures that are believed."
    )


class ProxyEntry(Entry):
    """A proxy that signs people in and says in headers who they are."""

    header: Header = Field(description="The header with the person's name.")
    groups_header: Header | None = Field(default=None, description="The header with his groups, between commas.")
    networks: Annotated[list[Network], Field(min_length=1, max_length=20)] = Field(
        alias="from", description="From which machines it connects."
    )
    secret_header: Header = Field(default="X-Unstick-Proxy-Secret", description="The header with the shared secret.")
    secret_file: Line = Field(description="A file with the shared secret, mode 0600.")


class LoginFile(Entry):
    """How persons sign in to the pages besides tokens, and what their groups may do."""

    base_url: WebAddress | None = Field(default=None, description="Where people reach the service.")
    oidc: OidcEntry | None = Field(default=None, description="A provider of identities.")
    proxy: ProxyEntry | None = Field(default=None, description="Or a proxy that signs people in.")
    groups: dict[Line, Annotated[list[Annotated[Role, Field(strict=False)]], Field(min_length=1)]] = Field(
        max_length=500, description="Which roles each group has."
    )
    help: Line | None = Field(default=None, description="Who can help somebody none of whose groups has a role.")


def login_json_schema() -> dict[str, object]:
    """Return the JSON Schema of login.yaml, for editors."""
    schema = clean(LoginFile.model_json_schema(by_alias=True))
    return {"$schema": DIALECT, **schema, "title": "Signing in to unstick"}
