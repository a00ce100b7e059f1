"""Each gate of fusermount-over-ssm on a booted node, denied once and expired once."""

from collections.abc import Callable

import pytest

from lab.nodes import Node
from lab.stuck import FuseMount, StuckConnection
from service.domain.run import GateState
from tests.cures.cure import Cure, ending

pytestmark = pytest.mark.needs_root

RUNBOOK = "fusermount-over-ssm"


def server_gone(node: Node) -> FuseMount:
    """Mount, and let the server die while nobody waits; the helper keeps the connection."""
    made = FuseMount(node)
    made.kill_server()
    return made


def hung(node: Node) -> FuseMount:
    """Give a connection whose server lives and answers nobody."""
    return StuckConnection(node, kill_server=False)


def state(mount: FuseMount, node: Node) -> dict[str, object]:
    """Return all that this runbook could change."""
    mounts = node.run(["cat", "/proc/1/mountinfo"]).stdout
    reader = mount.reader_state() if isinstance(mount, StuckConnection) else None
    return {
        "mounts": [line for line in mounts.splitlines() if " - fuse." in line],
        "exists": mount.exists(),
        "waiting": mount.waiting(),
        "reader": reader,
    }


@pytest.mark.parametrize(
    ("gate", "made"),
    [
        ("abort-dead", StuckConnection),
        ("abort-hung", hung),
        ("unmount-gone", server_gone),
        ("unmount-idle", FuseMount),
    ],
)
def test_a_gate_that_is_denied_or_expires_leaves_the_node_as_it_was_found(
    cure: Cure, node: Node, gate: str, made: Callable[[Node], FuseMount]
) -> None:
    with made(node) as mount:
        before = state(mount, node)
        params = {"hold_seconds": 3, "mountpoint": mount.mountpoint}

        denied = cure.request(RUNBOOK, params=params)
        after_denial = cure.deny(denied, gate)
        expired = cure.request(RUNBOOK, params=params)
        after_expiry = cure.expire(expired, gate)

        assert (ending(after_denial), cure.gates(denied)) == (("denied", None), {gate: GateState.DENIED})
        assert (ending(after_expiry), cure.gates(expired)) == (("expired", None), {gate: GateState.EXPIRED})
        assert (cure.acted(denied), cure.acted(expired), state(mount, node)) == ([], [], before)
