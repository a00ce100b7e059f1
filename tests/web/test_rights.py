"""What a token's reach and the policy's rights do at the API: refusals in words, and nothing hidden from readers."""

from dataclasses import replace

import pytest

from service.app.tokens import create_token
from service.domain.person import Permission, Role
from service.domain.policy import Policy
from service.domain.reach import Reach
from service.domain.rights import Right
from tests.app.alerting import Fixed
from tests.support.world import World
from tests.web.api import Api
from tests.web.browsing import opened


def test_a_token_for_another_pool_reads_everything_and_acts_on_nothing(world: World, api: Api) -> None:
    run = api.request()
    world.settle(past_waits=False)
    gate = api.get("/approvals").json()["items"][0]
    roles = frozenset({Role.OPERATOR, Role.APPROVER})
    reach = Reach((), ("a100",))
    api.tokens[Role.APPROVER] = create_token(world.service, "n", roles=roles, person="ann", by="t", reach=reach)

    seen = api.get(f"/approvals/{gate['id']}", role=Role.APPROVER).json()
    answers = [
        api.post("/runs", {"runbook": "node-facts", "nodes": ["gpu-03"]}, role=Role.APPROVER),
        api.post(f"/approvals/{gate['id']}/approve", {"digest": gate["digest"]}, role=Role.APPROVER),
        api.post(f"/runs/{run}/cancel", role=Role.APPROVER),
        api.post("/nodes/gpu-01/hold", {"reason": "no"}, role=Role.APPROVER),
    ]

    assert [answer.status_code for answer in answers] == [403] * 4
    told = "ann's token is for pools a100 alone, and this is about node-facts on gpu-03 (pools h100)."
    assert answers[0].json()["detail"] == told
    assert (seen["may_answer"], seen["check_output"]["stdout"]) == (False, "connection 57 is stuck\n")
    assert seen["may_not_because"].startswith("ann's token is for pools a100 alone")


@pytest.mark.parametrize("policy", [Policy(), Policy(break_glass=True), Policy(break_glass_doubt="It is gone.")])
def test_what_is_said_of_overriding_is_what_overriding_says(world: World, api: Api, policy: Policy) -> None:
    gate = opened(world, api, "gpu-02")
    world.service = replace(world.service, policy=Fixed(policy))
    api.app.state.service = world.service

    said = api.get("/policy/explain", role=Role.BREAK_GLASS, what="override", node="gpu-02").json()
    body = {"digest": gate.digest, "reason": "nobody else answers"}
    done = api.post(f"/approvals/{gate.id}/override", body, role=Role.BREAK_GLASS)

    assert [look["by"] for look in said["looks"]] == ["role", "break-glass", "reach", "rights"]
    assert (said["allowed"], done.status_code) == ((True, 200) if policy.break_glass else (False, 403))
    assert policy.break_glass or done.json()["detail"] == said["why"] == policy.break_glass_off


def test_it_is_explained_what_decides(world: World, api: Api) -> None:
    right = Right(frozenset({"operator"}), frozenset({Permission.REQUEST}), Reach((), ("h*",)), "policy.yaml:2")
    world.service = replace(world.service, policy=Fixed(Policy(rights=(right,))))
    api.app.state.service = world.service

    said = api.get("/policy/explain", role=Role.OPERATOR, what="request", runbook="node-facts", node="gpu-01").json()
    unknown = [api.find("/policy/explain", {"what": "hold", word: "none"}).status_code for word in ("runbook", "node")]

    assert (said["allowed"], said["why"]) == (
        True,
        "policy.yaml:2 lets operator request: node-facts on gpu-01 (pools h100).",
    )
    assert [look["by"] for look in said["looks"]] == ["role", "reach", "rights"]
    assert unknown == [404, 404]
