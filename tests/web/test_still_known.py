"""A record that has its turns takes seconds, and who asked may be known no more when his is there."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from service.app.sessions import end_sessions
from service.app.tokens import revoke_token
from service.domain.person import Role
from tests.support.world import World
from tests.web.api import CURE, Api, problem
from tests.web.browsing import opened, signed_in, words


@dataclass
class Queued:
    """A store before whose next write something else has its turn."""

    store: Any
    before: Callable[[], object]

    def write(self, change: Callable[..., Any]) -> Any:
        self.before()
        return self.store.write(change)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


def meanwhile(world: World, api: Api, happens: Callable[[], object]) -> None:
    """Let this happen when what a route writes waits for its turn."""
    api.app.state.service = replace(world.service, store=Queued(world.service.store, happens))


def actions(world: World) -> list[str]:
    """Return what the record says was done."""
    return [event.fact.action for event in world.service.store.audit_events()]


WRITES: list[tuple[Role, str, Mapping[str, object] | None]] = [
    (Role.OPERATOR, "/runs", CURE),
    (Role.OPERATOR, "/nodes/gpu-02/hold", {"reason": "mine"}),
    (Role.APPROVER, "/approvals/{gate}/approve", {"digest": "{digest}"}),
    (Role.APPROVER, "/approvals/{gate}/deny", {"digest": "{digest}", "reason": "no"}),
    (Role.OPERATOR, "/runs/{run}/cancel", None),
    (Role.ADMIN, "/pause", {"reason": "storm"}),
]


@pytest.mark.parametrize(("role", "path", "body"), WRITES, ids=[path for _, path, _ in WRITES])
def test_s13_a_token_that_is_revoked_while_its_write_waits_does_nothing(
    api: Api, world: World, role: Role, path: str, body: Mapping[str, object] | None
) -> None:
    gate = opened(world, api)
    filled = {key: gate.digest if value == "{digest}" else value for key, value in (body or {}).items()}
    meanwhile(world, api, lambda: revoke_token(world.service, role, by="admin"))
    before = actions(world)

    answer = api.post(path.format(gate=gate.id, run=gate.run_id), filled or None, role=role)

    assert problem(answer)[:2] == (401, "unauthenticated")
    assert actions(world)[len(before) :] == ["token.revoked"]


def test_a_session_that_is_ended_while_its_answer_waits_decides_nothing(api: Api, world: World) -> None:
    gate = opened(world, api)
    browser = signed_in(api, Role.APPROVER)
    meanwhile(world, api, lambda: end_sessions(world.service, "approver", by="admin"))

    answer = browser.send(f"/gates/{gate.id}/answer", answer="approve", digest=gate.digest)

    assert (answer.status_code, "Your session has ended meanwhile." in words(answer)) == (401, True)
    assert world.open_gates() == [gate]
