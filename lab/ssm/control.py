"""The control endpoint, for other processes: log, state and switches, under a path that AWS does not have."""

import hmac
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

from lab.ssm.calls import Calls
from lab.ssm.state import State

PATH = "/_lab/"


class Control:
    """Answers `GET /_lab/calls`, `GET /_lab/state`, `POST /_lab/faults`, `/_lab/clock` and `/_lab/parameters`."""

    def __init__(self, state: State, calls: Calls, secret: str) -> None:
        """Serve whoever shows the secret access key as a bearer token."""
        self._state = state
        self._calls = calls
        self._secret = secret
        self._table: dict[tuple[str, str], Callable[[dict[str, str], dict[str, Any]], Any]] = {
            ("GET", "calls"): lambda query, _: [each.as_json() for each in calls.all(query.get("operation"))],
            ("GET", "state"): lambda _, __: self._describe(),
            ("POST", "faults"): lambda _, wanted: state.hub.faults.apply(wanted) and {},
            ("POST", "clock"): lambda _, wanted: self._clock(wanted),
            ("POST", "parameters"): lambda _, wanted: self._store(wanted),
        }

    def answer(self, method: str, path: str, body: bytes, *, authorization: str) -> tuple[int, dict[str, Any]]:
        """Give the HTTP status and the JSON to answer."""
        if not hmac.compare_digest(authorization.encode(), f"Bearer {self._secret}".encode()):
            return 403, {"error": "Authorization must be `Bearer` and the server's secret access key"}
        parts = urlsplit(path)
        action = self._table.get((method, parts.path.removeprefix(PATH)))
        if action is None:
            return 404, {"error": f"there are {', '.join(f'{method} {PATH}{name}' for method, name in self._table)}"}
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        try:
            return 200, {"result": action(query, json.loads(body or b"{}"))}
        except (ValueError, KeyError, TypeError, AttributeError) as wrong:
            return 400, {"error": f"{type(wrong).__name__}: {wrong}"}

    def _clock(self, wanted: dict[str, Any]) -> dict[str, Any]:
        clock = self._state.hub.clock
        clock.advance(float(wanted.get("advance", 0)))
        if "pace" in wanted:
            clock.set_pace(float(wanted["pace"]), script_pace=wanted.get("script_pace"))
        return {"now": clock.moment().isoformat()}

    def _store(self, wanted: dict[str, Any]) -> dict[str, Any]:
        with self._state.lock:
            self._state.hub.stored.update({str(name): str(value) for name, value in wanted.items()})
            return dict(self._state.hub.stored)

    def _describe(self) -> dict[str, Any]:
        state = self._state
        with state.lock:
            agents = {
                name: {"up": agent.up, "documents": sorted(agent.documents)} for name, agent in state.agents.items()
            }
            commands = {
                command.id: {each.instance: f"{each.status}/{each.details}" for each in command.invocations}
                for command in state.commands.values()
            }
            return {"agents": agents, "commands": commands, "late_reports": state.late_reports}
