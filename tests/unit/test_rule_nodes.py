"""Which node a text of an alert means."""

import pytest

from service.domain.node import Endpoint, ExecutorKind, Inventory, Node
from service.domain.rule import NodeBy, nodes_named


def node(name: str, address: str = "", executor: ExecutorKind = ExecutorKind.SSH, **attributes: str) -> Node:
    return Node(name, Endpoint(name, executor, address or name), attributes=attributes)


INVENTORY = Inventory(
    {
        one.name: one
        for one in (
            node("gpu-01", "192.0.2.1", instance="i-0123456789abcdef1", k8s_name="ip-192-0-2-1"),
            node("gpu-02", "i-0123456789abcdef2", ExecutorKind.SSM),
            node("gpu-03", "2001:db8::3"),
            node("twin-a", "192.0.2.9"),
            node("twin-b", "192.0.2.9"),
        )
    }
)


@pytest.mark.parametrize(
    ("text", "by", "names"),
    [
        ("gpu-01", NodeBy.NAME, ("gpu-01",)),
        (" gpu-01:9400 ", NodeBy.NAME, ("gpu-01",)),
        ("gpu-0", NodeBy.NAME, ()),
        ("GPU-01", NodeBy.NAME, ()),
        ("", NodeBy.NAME, ()),
        (":9400", NodeBy.NAME, ()),
        ("192.0.2.1:9400", NodeBy.ADDRESS, ("gpu-01",)),
        ("[2001:db8::3]:9400", NodeBy.ADDRESS, ("gpu-03",)),
        ("2001:db8::3", NodeBy.ADDRESS, ("gpu-03",)),
        ("192.0.2.9:9400", NodeBy.ADDRESS, ("twin-a", "twin-b")),
        ("i-0123456789abcdef1", NodeBy.INSTANCE, ("gpu-01",)),
        ("i-0123456789abcdef2", NodeBy.INSTANCE, ("gpu-02",)),
        ("192.0.2.1", NodeBy.INSTANCE, ()),
        ("ip-192-0-2-1", NodeBy.K8S_NAME, ("gpu-01",)),
        ("gpu-01", NodeBy.K8S_NAME, ()),
        ("gpu-03", NodeBy.SLURM_NAME, ("gpu-03",)),
    ],
)
def test_a_text_means_the_nodes_that_are_called_so_and_no_others(text: str, by: NodeBy, names: tuple[str, ...]) -> None:
    assert nodes_named(INVENTORY, text, by) == names
