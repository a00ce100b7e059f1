"""Sources come, go and change without a restart, and the last good answer stays."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from lab.process import wait_until
from service.domain.errors import ConfigInvalid, SourceSilent
from service.domain.node import Controller, Endpoint, ExecutorKind, Inventory, Node
from service.inventory.build import build_file
from service.inventory.file import FileInventory
from service.inventory.source import (
    Found,
    KubernetesQuestion,
    Look,
    SlurmQuestion,
    SourceAnswer,
    SourceConfig,
    SsmQuestion,
)
from service.inventory.sourced import SourcedInventory
from tests.inventory.sources import NOW, answer, instance, watch

FILE = "node_sources: {fleet: {kind: ssm, node: {executor: ssm, pools: [POOL]}}}\n"


class Played:
    """A source that says what a test has put there."""

    def __init__(self, *found: Found) -> None:
        self.says: SourceAnswer | SourceSilent = answer(*found)
        self.asked = 0

    def __call__(self) -> SourceAnswer:
        self.asked += 1
        if isinstance(self.says, SourceSilent):
            raise self.says
        return self.says


@pytest.fixture
def source() -> Played:
    return Played(Found("gpu-01", instance(1)))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "inventory.yaml"
    path.write_text(FILE)
    return path


@pytest.fixture
def inventory(file: Path, source: Played) -> Iterator[SourcedInventory]:
    def look_of(_config: SourceConfig) -> Look:
        return source

    made = SourcedInventory(FileInventory(file), look_of, now=lambda: NOW, chance=lambda: 0.5)
    yield made
    made.close()


def test_a_source_is_asked_when_it_is_told_to_and_its_node_is_there(inventory: SourcedInventory) -> None:
    before = inventory.current()
    inventory.refresh()
    after = inventory.current()

    node = Node("gpu-01", Endpoint("gpu-01", ExecutorKind.SSM, instance(1)), ("POOL",), sources=("fleet",))
    assert (before.nodes, before.sources[0].answered_at) == ({}, None)
    assert (after.nodes, after.sources[0].answered_at, after.sources[0].nodes) == ({"gpu-01": node}, NOW, 1)


def test_the_last_good_answer_stays_and_says_what_is_wrong(inventory: SourcedInventory, source: Played) -> None:
    inventory.refresh()
    source.says = SourceSilent("SSM did not answer.", "Look.")
    inventory.refresh()

    after = inventory.current()

    assert list(after.nodes) == ["gpu-01"]
    assert (after.sources[0].answered_at, after.sources[0].problem) == (NOW, "SSM did not answer. Look.")


def test_a_node_that_is_gone_from_its_source_disappears(inventory: SourcedInventory, source: Played) -> None:
    inventory.refresh()
    source.says = answer()
    inventory.refresh()

    assert inventory.current().nodes == {}


def test_a_changed_template_takes_effect_without_asking_again(
    inventory: SourcedInventory, source: Played, file: Path
) -> None:
    inventory.refresh()
    file.write_text(FILE.replace("POOL", "another"))

    assert inventory.current().nodes["gpu-01"].pools == ("another",)
    assert source.asked == 1


def test_a_changed_question_makes_the_nodes_unknown_until_it_is_answered(
    inventory: SourcedInventory, file: Path
) -> None:
    inventory.refresh()
    file.write_text(FILE.replace("kind: ssm,", "kind: ssm, tag: a=b,"))

    assert inventory.current().silent() == "the source fleet has not answered yet."


def test_a_source_that_left_the_file_takes_its_nodes_along(inventory: SourcedInventory, file: Path) -> None:
    inventory.refresh()
    file.write_text("nodes: {}\n")

    assert inventory.current() == Inventory()


def test_it_is_asked_in_the_background_until_it_is_closed(inventory: SourcedInventory, source: Played) -> None:
    inventory.start(wait_seconds=30)

    assert list(inventory.current().nodes) == ["gpu-01"]
    assert source.asked == 1


def test_a_source_that_is_added_while_it_runs_is_asked_at_the_next_look(
    inventory: SourcedInventory, file: Path
) -> None:
    file.write_text("nodes: {}\n")
    inventory.start(wait_seconds=0)
    file.write_text(FILE)

    wait_until(lambda: "gpu-01" in inventory.current().nodes, "the node is there", seconds=30)


def test_a_closed_inventory_still_knows_its_nodes(inventory: SourcedInventory) -> None:
    inventory.refresh()
    inventory.close()

    assert list(inventory.current().nodes) == ["gpu-01"]


def test_a_source_is_asked_again_and_heals_by_itself(source: Played) -> None:
    one = watch(source, refresh=timedelta(milliseconds=5))
    source.says = SourceSilent("no")
    one.start()
    wait_until(lambda: source.asked > 1, "it was asked twice", seconds=30)
    broken = one.report().state
    source.says = answer(Found("gpu-02", instance(2)))
    wait_until(lambda: one.report().state.answered_at is not None, "it answered", seconds=30)
    one.end()
    one.join()

    assert (broken.answered_at, broken.problem) == (None, "no")
    assert one.report().state == replace(broken, answered_at=NOW, problem=None, nodes=1)


def question(text: str) -> SourceConfig:
    head = "controllers: {head: {executor: local}}\n"
    return build_file(f"{head}node_sources: {{one: {{{text}}}}}", "inventory.yaml", folder=Path("/etc")).sources[0]


def test_every_word_of_a_source_reaches_its_question() -> None:
    ssm = question(
        "kind: ssm, tag: a=b, names: ['gpu[1-2]'], pools: {h100: p=q}, refresh_seconds: 30, "
        "stale_after_seconds: 90, node: {executor: ssm, region: eu-central-1, profile: gpu, document: unstick-run}"
    )
    ssh = question(
        "kind: kubernetes, controller: head, selector: gpu=true, attributes: {rack: example.com/rack}, "
        "pools: [gpu], node: {executor: ssh, key_file: k, user: x, login: system}"
    )
    slurm = question("kind: slurm, controller: head, node: {executor: ssh, attributes: {fqdn: '{name}.lab'}}")

    assert ssm.question == SsmQuestion("eu-central-1", "gpu", "a=b", ("gpu1", "gpu2"), {"h100": "p=q"})
    assert (ssm.template.endpoint.document, ssm.refresh, ssm.stale_after) == (
        "unstick-run",
        timedelta(seconds=30),
        timedelta(seconds=90),
    )
    assert isinstance(ssh.question, KubernetesQuestion)
    assert replace(ssh.question, controller=head()) == KubernetesQuestion(
        head(), "gpu=true", {"rack": "example.com/rack"}, ("gpu",)
    )
    assert (ssh.template.endpoint.key_file, ssh.template.endpoint.user, ssh.template.controller) == (
        "/etc/k",
        "x",
        "head",
    )
    assert isinstance(slurm.question, SlurmQuestion)
    assert slurm.template.attributes == {"fqdn": "{name}.lab"}


def head() -> Controller:
    return build_file("controllers: {head: {executor: local}}", "x", folder=Path("/etc")).inventory.controllers["head"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: ssm, node: {executor: ssh}", "`node` of a source of kind ssm has `executor: ssm`."),
        ("kind: ssm, node: {executor: ssm, instance: i-01234567}", "`instance` is what the source says; remove it."),
        ("kind: slurm, controller: head, node: {executor: local}", "all nodes would be this machine"),
        ("kind: slurm, controller: haed, node: {executor: ssh}", "There is no controller `haed`. Did you mean `head`?"),
        ("kind: slurm, controller: head, node: {executor: ssh, jump: x}", "The jump host `x` is no node"),
        ("kind: slurm, node: {executor: ssh}", "`controller` is missing."),
        ("kind: ssm", "`node` is missing."),
        ("kind: ec2, node: {executor: ssm}", "'ec2'"),
        (
            "kind: ssm, tags: {a: b}, node: {executor: ssm}",
            "`tags` is no word of an inventory here. Did you mean `tag`",
        ),
        ("kind: ssm, tag: a, node: {executor: ssm}", "`a` is no tag; write it as `KEY=VALUE`."),
        ("kind: ssm, names: ['gpu[1-900]'], node: {executor: ssm}", "`names` has 900 names, each a call of AWS"),
        ("kind: ssm, refresh_seconds: 1, node: {executor: ssm}", "greater than or equal to 10"),
        (
            "kind: ssm, refresh_seconds: 60, stale_after_seconds: 100, node: {executor: ssm}",
            "`stale_after_seconds` is less than two times `refresh_seconds`.",
        ),
        (
            "kind: kubernetes, controller: head, selector: 'a=b;id', node: {executor: ssh}",
            "`a=b;id` is no label selector",
        ),
        ("kind: kubernetes, controller: head, pools: ['a b'], node: {executor: ssh}", "`a b` is no key of a label."),
    ],
)
def test_a_wrong_word_of_a_source_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        question(text)
    assert said in str(caught.value)


def test_who_holds_the_keys_is_never_a_source() -> None:
    learned: Callable[..., Found] = Found
    assert not {"user", "key_file", "jump", "host_keys", "become"} & set(learned.__dataclass_fields__)  # type: ignore[attr-defined]
