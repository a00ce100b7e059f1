"""What signing in with an identity needs of the world: the file that says how, and the provider."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from service.domain.errors import NotFound
from service.domain.login import Identity, LoginConfig, OidcConfig


@dataclass(frozen=True)
class Flow:
    """One signing in under way: what ties the provider's answer to the browser that began it."""

    state: str
    nonce: str
    #: Of PKCE (RFC 7636): only its digest goes through the browser.
    verifier: str
    #: Where the provider sends the browser back to.
    redirect_uri: str


class LoginSource(Protocol):
    """Where it comes from who may sign in how."""

    def current(self) -> LoginConfig:
        """Return what holds now; ConfigInvalid when the file is wrong and none was good before."""


class IdentityProvider(Protocol):
    """Who vouches for persons, by OpenID Connect."""

    def address(self, config: OidcConfig, flow: Flow) -> str:
        """Return where to send the browser; ProviderSilent."""

    def identify(self, config: OidcConfig, flow: Flow, *, code: str, issuer: str | None, now: datetime) -> Identity:
        """Return whom the provider vouches for; `issuer` is what came with the code, None when nothing did.

        Unauthenticated when it vouches for nobody or what it says does not hold, ProviderSilent when it does not
        answer, ConfigInvalid when the client's secret cannot be read. Nothing that the provider has issued is kept.
        """

    def sign_out_address(self, config: OidcConfig, *, back: str) -> str | None:
        """Return where a browser signs out at the provider; None when there is none, or it does not answer."""

    def check(self, config: OidcConfig) -> None:
        """Return when the provider answers and the secret can be read; ProviderSilent, ConfigInvalid."""


class TokensAlone:
    """Stands for a file that is not there: people sign in with tokens."""

    def current(self) -> LoginConfig:
        """Return a configuration with no other way."""
        return LoginConfig()


class NobodyVouches:
    """Stands for a provider that is not there."""

    def address(self, config: OidcConfig, flow: Flow) -> str:
        """Refuse."""
        raise _NOBODY

    def identify(self, config: OidcConfig, flow: Flow, *, code: str, issuer: str | None, now: datetime) -> Identity:
        """Refuse."""
        raise _NOBODY

    def sign_out_address(self, config: OidcConfig, *, back: str) -> str | None:
        """Return none."""
        return None

    def check(self, config: OidcConfig) -> None:
        """Refuse."""
        raise _NOBODY


_NOBODY = NotFound("No provider vouches for anybody here.", "Sign in with a token.")
