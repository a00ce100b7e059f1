"""A browser without a window: keeps cookies as one does, and sends forms as one does."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import unescape
from html.parser import HTMLParser
from typing import Any

import httpx

from service.domain.person import Role
from service.domain.run import Gate
from service.web.sessions import COOKIE
from tests.support.world import World
from tests.web.api import Api

HTML = {"Accept": "text/html,application/xhtml+xml"}
OWN = {"Sec-Fetch-Site": "same-origin", "Origin": "http://unstick.test"}


@dataclass
class Browser:
    """One browser of one person."""

    api: Api
    cookie: str = ""

    def get(self, path: str, **headers: str) -> httpx.Response:
        """Open a page, without following where it leads."""
        return self._keep(self.api.ask("GET", path, role=None, headers={**HTML, **self._cookie(), **headers}))

    def post(self, path: str, fields: Mapping[str, str], *, headers: Mapping[str, str] = OWN) -> httpx.Response:
        """Send a form from a page of ours, without the token of the session unless it is given."""
        sent = {**HTML, **self._cookie(), **headers}
        return self._keep(self.api.ask("POST", path, role=None, headers=sent, data=dict(fields)))

    def send(self, path: str, **fields: str) -> httpx.Response:
        """Send a form as it stands on the list of gates."""
        token = re.search(r'name="form_token" value="([0-9a-f]{64})"', self.get("/gates").text)
        assert token is not None
        return self.post(path, {"form_token": token[1], **fields})

    def sign_in(self, role: Role, **fields: str) -> httpx.Response:
        """Sign in with the token of a role."""
        return self.post("/sign-in", {"token": self.api.tokens[role], **fields})

    def _cookie(self) -> dict[str, str]:
        return {"Cookie": f"{COOKIE}={self.cookie}"} if self.cookie else {}

    def _keep(self, answer: httpx.Response) -> httpx.Response:
        for line in answer.headers.get_list("set-cookie"):
            name, _, value = line.partition(";")[0].partition("=")
            assert name == COOKIE
            self.cookie = value.strip('"')
        return answer


def signed_in(api: Api, role: Role) -> Browser:
    """Return a browser in which this role has signed in."""
    browser = Browser(api)
    assert browser.sign_in(role).status_code == 303
    return browser


def opened(world: World, api: Api, node: str = "gpu-01", **more: Any) -> Gate:
    """Request the cure of a node, and return the gate at which it stops."""
    api.request(node, **more)
    world.settle()
    return next(gate for gate in world.open_gates() if gate.node == node)


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []

    def handle_data(self, data: str) -> None:
        self.parts.append(data)


def words(answer: httpx.Response) -> str:
    """Return what a page says, as one line."""
    parser = _Text()
    parser.feed(answer.text)
    return " ".join(unescape("".join(parser.parts)).split())
