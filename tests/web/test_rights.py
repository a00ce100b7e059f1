"""What a token's reach and the policy's rights do at the API: refusals in words, and nothing hidden from readers."""

from dataclasses import replace

from service.app.tokens import create_token
from service.domain.person import Permission, Role
from service.domain.policy import Policy
from service.domain.reach import Reach
from service.domain.rights import Right
from tests.app.alerting import Fixed
from tests.support.world import World
from tests.web.api import Api


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
