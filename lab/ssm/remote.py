"""The control endpoint from another process: what `SsmServer` gives in its own."""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, Self

from lab.ssm.control import PATH

SECONDS = 30.0


class Remote:
    """A running stand-in, known by what `environment()` or `serve` gave."""

    def __init__(self, url: str, secret: str) -> None:
        """Keep the endpoint and the secret access key."""
        self._url = url
        self._secret = secret

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Self:
        """Find it in an environment such as os.environ; KeyError if there is none."""
        return cls(environment["AWS_ENDPOINT_URL_SSM"], environment["AWS_SECRET_ACCESS_KEY"])

    def calls(self, operation: str | None = None) -> list[dict[str, Any]]:
        """Give the log of calls."""
        calls: list[dict[str, Any]] = self._ask("calls" + (f"?operation={operation}" if operation else ""))
        return calls

    def state(self) -> dict[str, Any]:
        """Give how agents and commands stand."""
        state: dict[str, Any] = self._ask("state")
        return state

    def faults(self, **switches: Any) -> None:
        """Set switches, named as in `Faults.apply`."""
        self._ask("faults", switches)

    def advance(self, seconds: float) -> None:
        """Let this much time pass at once."""
        self._ask("clock", {"advance": seconds})

    def store(self, values: Mapping[str, str]) -> None:
        """Store parameters."""
        self._ask("parameters", dict(values))

    def _ask(self, what: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._secret}"}
        request = urllib.request.Request(f"{self._url}{PATH}{what}", data=data, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                return json.load(answer)["result"]
        except urllib.error.HTTPError as refused:
            with refused:
                raise ValueError(refused.read().decode()) from refused
