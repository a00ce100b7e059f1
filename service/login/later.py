"""The provider, loaded when somebody signs in by it: its libraries are an extra, and nobody else needs them."""

import threading
from datetime import datetime
from typing import TYPE_CHECKING

from service.app.login_ports import Flow
from service.domain.errors import ConfigInvalid
from service.domain.login import Identity, OidcConfig

if TYPE_CHECKING:
    from service.login.oidc import OidcProvider


class ProviderLater:
    """Stands for an `OidcProvider` until there is one."""

    def __init__(self) -> None:
        """Load nothing yet."""
        self._lock = threading.Lock()
        self._loaded: OidcProvider | None = None

    def address(self, config: OidcConfig, flow: Flow) -> str:
        """Return where to send the browser; ProviderSilent, or ConfigInvalid when the extra is not installed."""
        return self._provider().address(config, flow)

    def identify(self, config: OidcConfig, flow: Flow, *, code: str, issuer: str | None, now: datetime) -> Identity:
        """Return whom the provider vouches for; errors as `OidcProvider.identify`."""
        return self._provider().identify(config, flow, code=code, issuer=issuer, now=now)

    def sign_out_address(self, config: OidcConfig, *, back: str) -> str | None:
        """Return where a browser signs out at the provider; None when there is none."""
        return self._provider().sign_out_address(config, back=back)

    def check(self, config: OidcConfig) -> None:
        """Return when the provider answers and the secret can be read; ProviderSilent, ConfigInvalid."""
        self._provider().check(config)

    def _provider(self) -> "OidcProvider":
        with self._lock:
            if self._loaded is None:
                self._loaded = _load()
            return self._loaded


def _load() -> "OidcProvider":
    try:
        # An import where it is used: the service also starts without the extra.
        from service.login.oidc import OidcProvider  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ConfigInvalid(
            f"login.yaml names a provider, and the library {error.name} is not installed.",
            "Install unstick with its extra: pip install 'unstick[oidc]'.",
        ) from error
    return OidcProvider()
