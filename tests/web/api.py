"""Asks the application as a person with a role, without a network."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
from fastapi import FastAPI

from service.domain.person import Role

Headers = Mapping[str, str] | Sequence[tuple[str, str]]
CURE = {"runbook": "abort-stuck-fuse", "nodes": ["gpu-01"], "reason": "readers hang"}


@dataclass
class Api:
    """The application, and a token for each role."""

    app: FastAPI
    tokens: dict[Role, str]

    def ask(
        self,
        method: str,
        path: str,
        *,
        role: Role | None = Role.VIEWER,
        headers: Headers = (),
        **more: Any,
    ) -> httpx.Response:
        """Send one request; `role` None sends no token."""
        known = [] if role is None else [("Authorization", f"Bearer {self.tokens[role]}")]
        given = list(headers.items()) if isinstance(headers, Mapping) else list(headers)
        return asyncio.run(self._ask(method, path, headers=httpx.Headers(known + given, encoding="latin-1"), **more))

    def get(self, path: str, *, role: Role | None = Role.VIEWER, **query: Any) -> httpx.Response:
        """Read something of the API."""
        return self.ask("GET", f"/api/v1{path}", role=role, params=query)

    def find(self, path: str, query: Mapping[str, object]) -> httpx.Response:
        """Read a list with filters."""
        return self.ask("GET", f"/api/v1{path}", params=dict(query))

    def post(self, path: str, body: object = None, *, role: Role | None = Role.OPERATOR, **more: Any) -> httpx.Response:
        """Send something to the API."""
        return self.ask("POST", f"/api/v1{path}", role=role, json={} if body is None else body, **more)

    def request(self, node: str = "gpu-01", *, role: Role = Role.OPERATOR, **more: object) -> str:
        """Request the cure of a node; return the run's id."""
        answer = self.post("/runs", {**CURE, "nodes": [node], **more}, role=role)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    async def _ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://unstick.test") as client:
            return await client.request(method, path, **more)


def problem(answer: httpx.Response) -> tuple[int, str, str]:
    """Return status, code and detail of a refusal, after a look at its form."""
    body = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert body["status"] == answer.status_code
    assert body["type"] == f"urn:unstick:problem:{body['code']}"
    assert "Traceback" not in answer.text
    return answer.status_code, body["code"], body["detail"]
