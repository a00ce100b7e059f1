"""`unstick policy` says who may do what and why, on files and the database alone."""

import json

import pytest

from service.domain.person import Role
from tests.cli.installation import Installation

RIGHTS = """rights:
  - {who: [ann], may: [operator], runbooks: [second], pools: [h100]}
  - {who: [bob, "group:sre"], may: [approve]}
"""


@pytest.fixture(scope="module")
def ruled(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """Give an installation with rights, two nodes in pools, and tokens of two persons; tests only read it."""
    place = Installation(tmp_path_factory.mktemp("ruled") / "place")
    (place.folder / "config" / "policy.yaml").write_text(RIGHTS)
    (place.folder / "config" / "inventory.yaml").write_text(
        "nodes:\n  n00: {executor: ssh, pools: [h100]}\n  n01: {executor: ssh, pools: [a100]}\n"
    )
    place.token("ann", Role.OPERATOR, Role.APPROVER)
    place.token("bob", Role.APPROVER)
    return place


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("ann", "request", "second", "--node", "n00"), 0, "config/policy.yaml:2 lets ann request: second on n00"),
        (("ann", "request", "second", "--node", "n01"), 1, "No entry of `rights` in the policy lets ann request"),
        (("ann", "approve", "second", "--node", "n00"), 1, "It lets bob, group:sre."),
        (("bob", "approve", "second", "--node", "n00"), 0, "config/policy.yaml:3 lets bob answer this gate"),
        (("bob", "approve", "second", "--requested-by", "Bob"), 1, "bob requested this run and may not answer"),
        (("bob", "request", "second"), 1, "bob's token has the role approver, which may not request."),
        (("Ann", "request", "second", "--node", "n00"), 0, "allowed: ann request"),
        (("ann", "tokens"), 1, "which may not make or revoke tokens."),
        (("cid", "request", "second"), 1, "refused: cid has no valid token."),
        (("cid", "approve", "second", "--role", "approver", "--group", "sre"), 0, "config/policy.yaml:3 lets cid"),
        (("cid", "approve", "second", "--role", "admin", "--group", "sre"), 1, "have the role admin, which may not"),
        (("ann", "override", "second", "--role", "break-glass"), 1, "does not say `break_glass: true`"),
        (
            ("cid", "hold", "--role", "fly"),
            2,
            "There is no role 'fly'.\nThe roles, and what each may: viewer: read; op",
        ),
        (("ann", "request", "no-such"), 2, "no-such"),
        (("ann", "request", "second", "--node", "n99"), 2, "n99"),
        (("ann", "rule", "second"), 2, "WHAT is 'rule', and nobody can do that here.\nIt is one of read, request,"),
    ],
)
def test_it_says_who_may_what_and_what_decides(
    ruled: Installation, words: tuple[str, ...], code: int, told: str
) -> None:
    done = ruled("policy", "explain", *words)

    assert done.returncode == code, done.stdout + done.stderr
    assert told in done.stdout + done.stderr


def test_as_json_it_names_each_token_and_all_that_narrows(ruled: Installation) -> None:
    done = ruled("policy", "explain", "ann", "request", "second", "--node", "n00", "--json")

    said = json.loads(done.stdout)
    assert (said["allowed"], said["pools"], [one["token"] for one in said["tokens"]]) == (True, ["h100"], ["ann"])
    looks = said["tokens"][0]["looks"]
    assert [(look["by"], look["allows"]) for look in looks] == [("role", True), ("reach", True), ("rights", True)]


def test_a_policy_is_checked_against_the_runbooks_and_the_nodes(ruled: Installation) -> None:
    path = ruled.folder / "new.yaml"
    path.write_text(
        "rights:\n  - {who: [ann], may: [request, approve], runbooks: ['sec*', 'no-*'], pools: [h100, 'b*']}\n"
    )
    warned = ruled("policy", "check", "new.yaml")
    path.write_text("rights:\n  - {who: [ann], may: [anything]}\n")
    refused = ruled("policy", "check", "new.yaml")

    assert (warned.returncode, refused.returncode) == (0, 1), warned.stderr + refused.stderr
    assert [line.split("warning: ")[1].split(".")[0] for line in warned.stdout.splitlines()] == [
        "No runbook is called no-*",
        "No node is in a pool b*",
        "ann may request second in the pool h100, and nobody else may approve it",
    ]
    assert "new.yaml:2: `rights.0.may.0` is 'anything'." in refused.stdout
