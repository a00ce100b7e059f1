"""The file wins, and what is not clear is refused."""

from dataclasses import replace
from datetime import timedelta

import pytest

from service.domain.errors import Conflict, NotFound
from service.domain.node import Endpoint, ExecutorKind, Inventory, Node
from service.inventory.merged import SourceReport, merge
from service.inventory.source import Found
from tests.inventory.sources import BY_SSH, BY_SSM, NOW, instance, report, state

EMPTY = Inventory()


def by_ssm(name: str, number: int) -> Endpoint:
    return Endpoint(name, ExecutorKind.SSM, instance(number))


def test_a_node_of_a_source_is_reached_as_the_template_says() -> None:
    template = replace(BY_SSH, pools=("all",), controller="head", attributes={"fqdn": "{name}.lab"})
    found = Found("gpu-01", address="192.0.2.1", pools=("h100",), attributes={"rack": "7"}, hints={"k8s_ready": "True"})

    merged = merge(EMPTY, [report("fleet", found, template=template)])

    assert merged.nodes == {
        "gpu-01": Node(
            "gpu-01",
            Endpoint("gpu-01", ExecutorKind.SSH, "192.0.2.1", key_file="/k"),
            ("all", "h100"),
            "head",
            {"rack": "7", "fqdn": "gpu-01.lab"},
            sources=("fleet",),
            hints={"k8s_ready": "True"},
        )
    }


def test_the_file_wins_word_by_word_and_its_node_is_nobody_elses() -> None:
    named = Node("gpu-01", by_ssm("gpu-01", 9), ("mine",), attributes={"rack": "1"})
    found = Found("gpu-01", instance(1), pools=("h100",), attributes={"rack": "2", "gpu": "H100"}, hints={"a": "b"})

    merged = merge(Inventory({"gpu-01": named}), [report("fleet", found)])

    assert merged.nodes["gpu-01"] == replace(named, attributes={"rack": "1", "gpu": "H100"}, hints={"a": "b"})


def test_two_sources_that_agree_make_one_node() -> None:
    one = report("fleet", Found("gpu-01", instance(1), pools=("a",), hints={"ssm_ping": "Online"}))
    other = report("k8s", Found("gpu-01", instance(1), pools=("b",), attributes={"k8s_name": "gpu-01"}))

    merged = merge(EMPTY, [one, other])

    assert merged.nodes["gpu-01"] == Node(
        "gpu-01",
        by_ssm("gpu-01", 1),
        ("a", "b"),
        attributes={"k8s_name": "gpu-01"},
        sources=("fleet", "k8s"),
        hints={"ssm_ping": "Online"},
    )


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (
            report("k8s", Found("gpu-01", instance(2))),
            f"fleet and k8s disagree on which machine gpu-01 is: ssm {instance(1)}, ssm {instance(2)}.",
        ),
        (
            report("k8s", Found("gpu-01", address="192.0.2.1"), template=BY_SSH),
            f"fleet and k8s disagree on which machine gpu-01 is: ssm {instance(1)}, ssh 192.0.2.1:22.",
        ),
        (
            report(
                "k8s",
                Found("gpu-01", instance(1)),
                template=replace(BY_SSM, endpoint=replace(BY_SSM.endpoint, region="eu-central-1")),
            ),
            "fleet and k8s disagree on how gpu-01 is reached.",
        ),
        (
            report("k8s", Found("gpu-01", instance(1), attributes={"rack": "2"})),
            "fleet and k8s disagree on rack of gpu-01: 1, 2.",
        ),
        (
            report("k8s", Found("gpu-01", instance(1)), template=replace(BY_SSM, controller="b")),
            "fleet and k8s disagree on the controller of gpu-01: a, b.",
        ),
        (
            report("k8s", refused={"gpu-01": "gpu-01 is the name of 2 machines: x, y."}),
            "By the source k8s gpu-01 is the name of 2 machines: x, y.",
        ),
    ],
)
def test_sources_that_disagree_on_a_name_refuse_it_with_both(other: SourceReport, said: str) -> None:
    first = report(
        "fleet",
        Found("gpu-01", instance(1), attributes={"rack": "1"}),
        template=replace(BY_SSM, controller="a"),
    )

    merged = merge(EMPTY, [first, other])

    assert (merged.nodes, merged.refused) == ({}, {"gpu-01": said})
    with pytest.raises(Conflict, match=r"Name gpu-01 in inventory\.yaml"):
        merged.node("gpu-01")


def test_the_file_ends_a_disagreement() -> None:
    named = Node("gpu-01", by_ssm("gpu-01", 1))
    reports = [report("fleet", Found("gpu-01", instance(1))), report("k8s", Found("gpu-01", instance(2)))]

    merged = merge(Inventory({"gpu-01": named}), reports)

    assert (merged.node("gpu-01"), merged.refused) == (named, {})


def test_a_second_name_for_a_machine_of_the_file_is_refused_and_its_hints_go_to_the_first() -> None:
    named = Node("gpu-01", by_ssm("gpu-01", 1))

    merged = merge(Inventory({"gpu-01": named}), [report("fleet", Found("ip-1", instance(1), hints={"ssm_ping": "x"}))])

    assert merged.nodes == {"gpu-01": replace(named, hints={"ssm_ping": "x"})}
    assert merged.refused == {"ip-1": "ip-1 is the machine that inventory.yaml calls gpu-01."}


def test_two_names_of_two_sources_for_one_machine_are_both_refused() -> None:
    merged = merge(EMPTY, [report("fleet", Found("a", instance(1))), report("k8s", Found("b", instance(1)))])

    assert merged.nodes == {}
    assert merged.refused == {
        "a": f"a is one machine with b: both are ssm {instance(1)}.",
        "b": f"b is one machine with a: both are ssm {instance(1)}.",
    }


def test_a_node_without_the_address_that_its_executor_needs_is_refused() -> None:
    merged = merge(EMPTY, [report("k8s", Found("gpu-01", address="192.0.2.1"))])

    reason = "The source k8s tells no instance id (where Kubernetes is asked: a providerID of AWS) of gpu-01."
    assert (merged.nodes, merged.refused) == ({}, {"gpu-01": reason})


def test_a_source_that_never_answered_makes_a_node_unknown_and_not_absent() -> None:
    silent = SourceReport(BY_SSM, None, state("fleet", answered_at=None, problem="AccessDenied."))

    unknown, absent = merge(EMPTY, [silent]), merge(EMPTY, [report("fleet")])

    with pytest.raises(
        Conflict, match=r"Whether there is a node gpu-01 is not known: the source fleet .* AccessDenied"
    ):
        unknown.node("gpu-01")
    with pytest.raises(NotFound, match="There is no node gpu-01"):
        absent.node("gpu-01")


def test_a_node_that_only_stale_sources_know_is_refused() -> None:
    merged = merge(EMPTY, [report("fleet", Found("gpu-01", instance(1)))])
    late = NOW + timedelta(minutes=10, seconds=1)

    merged.refuse_stale(merged.node("gpu-01"), NOW + timedelta(minutes=10))
    with pytest.raises(Conflict, match=r"What is known of node gpu-01 is too old \(fleet 601 s\)\."):
        merged.refuse_stale(merged.node("gpu-01"), late)


def test_one_fresh_source_is_enough_and_the_file_is_never_stale() -> None:
    found = Found("gpu-01", instance(1))
    fresh = replace(report("k8s", found), state=state("k8s", answered_at=NOW + timedelta(hours=1)))
    late = NOW + timedelta(hours=1)

    both = merge(EMPTY, [report("fleet", found), fresh])
    named = merge(Inventory({"gpu-01": Node("gpu-01", by_ssm("gpu-01", 1))}), [report("fleet", found)])

    both.refuse_stale(both.node("gpu-01"), late)
    named.refuse_stale(named.node("gpu-01"), late)
