"""Signing in by the provider of the lab, without a browser and without a service."""

import secrets
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import httpx

from lab.oidc import CLIENT, SECRET, OidcServer
from service.app.login_ports import Flow
from service.domain.login import LoginConfig, OidcConfig

BACK = "http://unstick.test/sign-in/oidc/back"


@dataclass
class Said:
    """What login.yaml says, to be said otherwise by a test."""

    config: LoginConfig

    def current(self) -> LoginConfig:
        """Return what it says now."""
        return self.config


def config_for(provider: OidcServer, folder: Path) -> OidcConfig:
    """Return how this provider is asked, with the secret in a file."""
    secret = folder / "client-secret"
    secret.touch(mode=0o600)
    secret.write_text(f"{SECRET}\n")
    return OidcConfig("Example SSO", provider.issuer, CLIENT, secret_file=str(secret))


def new_flow() -> Flow:
    """Return a signing in that has just begun."""
    return Flow(secrets.token_urlsafe(32), secrets.token_urlsafe(32), secrets.token_urlsafe(32), BACK)


def led_back(address: str) -> dict[str, str]:
    """Go to the provider, and return what it leads back with."""
    answer = httpx.get(address, trust_env=False)
    assert answer.status_code == 302, answer.text
    return dict(parse_qsl(urlsplit(answer.headers["location"]).query))
