"""What `unstick doctor` looks at of how persons sign in."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from service import main
from service.app.login_ports import IdentityProvider
from service.app.secret_line import read_secret_line
from service.domain.errors import ConfigInvalid, ProviderSilent, UnstickError
from service.domain.login import LoginConfig, OidcConfig, ProxyConfig
from service.domain.person import Permission
from service.settings import Settings
from service.store import migrate

#: More names are not listed.
_MOST_NAMES = 5
#: Whether it is good, what was seen, and what to do.
Look = tuple[bool, str, str]


def looks_at_login(settings: Settings) -> Iterator[Look]:
    """Yield what is seen of login.yaml, of the provider and of the secrets; nothing where there is no such file."""
    path = settings.config / "login.yaml"
    if not path.exists():
        return
    service = main.with_login(main.files_service(settings, clock=main.SystemClock()), settings)
    try:
        config = service.login.current()
    except ConfigInvalid as error:
        yield False, error.reason, error.way_out
        return
    yield True, f"{path}: {len(config.groups)} groups with roles", ""
    if config.oidc is not None:
        yield from _address(config)
        yield from _provider(config.oidc, service.provider)
        yield from _persons(settings)
    if config.proxy is not None:
        yield from _proxy(config.proxy)


def _address(config: LoginConfig) -> Iterator[Look]:
    if urlsplit(config.base_url).scheme != "https":
        reason = f"`base_url` is {config.base_url}: the provider's answer goes without TLS."
        yield False, reason, "Write https://HOST, unless people reach the service on this machine alone."


def _provider(oidc: OidcConfig, provider: IdentityProvider) -> Iterator[Look]:
    try:
        provider.check(oidc)
    except ProviderSilent as error:
        # Its own way out is for who stands before the page.
        way_out = f"Look from this host: curl -v {oidc.issuer.rstrip('/')}/.well-known/openid-configuration"
        yield False, f"Nobody can sign in with {oidc.name}. {error.reason}", way_out
    except ConfigInvalid as error:
        yield False, f"Nobody can sign in with {oidc.name}. {error.reason}", error.way_out
    else:
        yield True, f"{oidc.name} answers at {oidc.issuer}, and the client's secret can be read", ""


def _proxy(proxy: ProxyConfig) -> Iterator[Look]:
    networks = ", ".join(map(str, proxy.networks))
    try:
        read_secret_line(proxy.secret_file)
    except ConfigInvalid as error:
        yield False, f"The proxy of login.yaml is not believed. {error.reason}", error.way_out
    else:
        yield True, f"A proxy at {networks} with the secret is believed when it says who somebody is", ""


def _persons(settings: Settings) -> Iterator[Look]:
    """Name the persons who have a token and no account: one human with two names counts as two persons."""
    url = settings.database_url.get_secret_value()
    try:
        # Opening one of an earlier version would migrate it, and an examination changes nothing.
        if migrate.revision(url) != migrate.head():
            return
        store = main.open_store(settings, main.SystemClock(), must_exist=True)
    except UnstickError:
        return  # told of the database already
    try:
        now = main.SystemClock().now()
        tokens = store.read(lambda reader: reader.tokens())
        known = {one.person for one in store.read(lambda reader: reader.known_identities())}
    finally:
        store.close()
    # A monitor that only delivers alerts is no human.
    human = (token for token in tokens if token.valid(now) and token.owner.may(Permission.READ))
    alone = sorted({token.person for token in human} - known)
    if alone:
        more = f" and {len(alone) - _MOST_NAMES} more" if len(alone) > _MOST_NAMES else ""
        named = ", ".join(alone[:_MOST_NAMES]) + more
        said = "is each the name that its person has at the provider? Under two names one human counts as two"
        yield True, f"Persons with a token who have not signed in with the provider yet: {named}; {said}", ""
