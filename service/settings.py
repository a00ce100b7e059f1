"""The settings: what the environment says, read once at start and refused at once when it is wrong.

| variable | default | |
|---|---|---|
| UNSTICK_DATABASE_URL | sqlite:///unstick.db | or postgresql+psycopg://USER@HOST/NAME |
| UNSTICK_CONFIG | config | folder with inventory.yaml, rules.yaml, policy.yaml |
| UNSTICK_RUNBOOKS | runbooks | folder; where there is none, the runbooks that came with the program |
| UNSTICK_HOST, UNSTICK_PORT | 127.0.0.1, 8000 | where `serve` listens; port 0: any that is free |
| UNSTICK_REQUESTS_PER_SECOND | 100 | how much one person may ask of the API and the pages, twenty times that at once |
| UNSTICK_URL | http://HOST:PORT of the two above | where the commands find the service |
| UNSTICK_TOKEN | none | who the commands speak for |
"""

import os
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, StringConstraints, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from service import resources
from service.domain.errors import ConfigInvalid

PREFIX = "UNSTICK_"
#: What the lab and the proofs are told by the same way.
_OF_OTHERS = ("UNSTICK_LAB_", "UNSTICK_PROOF_")
_MAY_BE = {
    "UNSTICK_PORT": "It is a port from 0 to 65535; 0 takes any that is free.",
    "UNSTICK_URL": "It begins with http:// or https://, such as http://127.0.0.1:8000.",
    "UNSTICK_TOKEN": "It is one word, as `unstick token create` has printed it.",
}

_Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]


def is_address(url: str) -> bool:
    """Whether a service may be found there: a host, by http or https, with no port that is none."""
    try:
        parts = urlsplit(url)
        host, _port = (parts.hostname or "").encode("idna"), parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(host)


def _address(url: str) -> str:
    if not is_address(url):
        raise ValueError("it is no address")
    return url


def _token(token: SecretStr) -> SecretStr:
    text = token.get_secret_value()
    # It is sent in a header: what cannot stand there would come back in a message that shows it.
    if not (text.isascii() and text.isprintable() and " " not in text):
        raise ValueError("it is no token")
    return token


class Settings(BaseSettings):
    """What the environment says."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore", env_ignore_empty=True)

    database_url: SecretStr = SecretStr("sqlite:///unstick.db")
    config: Path = Path("config")
    runbooks: Path = Path("runbooks")
    host: _Text = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    requests_per_second: Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False)] = 100.0
    url: Annotated[_Text, StringConstraints(pattern=r"^https?://[^\s]+$"), AfterValidator(_address)] | None = None
    token: Annotated[SecretStr, AfterValidator(_token)] | None = None

    @property
    def service_url(self) -> str:
        """Return where the service is found, without a slash at the end."""
        if self.url is not None:
            return self.url.rstrip("/")
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104 - compared, not bound
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @property
    def runbooks_folder(self) -> Path:
        """Return the folder of runbooks: the one that is set, else `runbooks` here, else the shipped ones."""
        if "runbooks" in self.model_fields_set or self.runbooks.is_dir():
            return self.runbooks
        return resources.runbooks_folder()

    @property
    def loopback(self) -> bool:
        """Whether `host` can be reached from this machine alone."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def load_settings() -> Settings:
    """Read the environment; ConfigInvalid names the variable and what it may be."""
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = PREFIX + str(first["loc"][0]).upper()
        # The value stays out of the sentence: it may be a password.
        may_be = _MAY_BE.get(name, f"{first['msg']}.")
        raise ConfigInvalid(f"{name} cannot be used.", may_be) from error


def unknown_variables(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return variables that begin with UNSTICK_ and are no setting: most likely mistyped."""
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    ours = {name for name in environment if name.startswith(PREFIX) and not name.startswith(_OF_OTHERS)}
    return tuple(sorted(ours - known))
