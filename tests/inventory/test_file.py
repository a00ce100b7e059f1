from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest
from structlog.testing import capture_logs

from service.domain.errors import ConfigInvalid
from service.domain.node import Become, Confine, Controller, Endpoint, ExecutorKind, Inventory, Login, Node, View
from service.inventory.build import build_inventory
from service.inventory.file import FileInventory

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
OTHER_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAabAeDOvM2SGPZmqnMcLi3bdLqiXmbUHiZDYqNk1ExP"


def build(text: str) -> Inventory:
    return build_inventory(dedent(text), "inventory.yaml", folder=Path("/etc/unstick"))


def refusal(text: str) -> str:
    with pytest.raises(ConfigInvalid) as caught:
        build(text)
    return str(caught.value)


def test_every_word_of_a_node_reaches_its_endpoint() -> None:
    inventory = build(f"""
        nodes:
          gpu-01:
            executor: ssh
            address: 192.0.2.1
            port: 2222
            user: unstick
            key_file: keys/id
            certificate_file: ~/id-cert.pub
            host_key: "{KEY} a comment"
            known_hosts_file: /etc/ssh/known
            host_ca: ["{OTHER_KEY}"]
            jump: {{address: 192.0.2.9, user: hop, key_file: /k, host_key: "{KEY}"}}
            become: sudo
            login: system
            view: boot
            confine: off
            path: /opt/bin:/bin
            pools: [h100, rack-1]
            controller: k8s-a
            attributes: {{k8s_name: gpu-01, rack: 7}}
        controllers:
          k8s-a: {{executor: local, env: {{KUBECONFIG: /etc/kube}}, path: /usr/local/bin}}
        sources:
          alertmanager: {{kind: alertmanager}}
        """)

    jump = Endpoint("192.0.2.9", ExecutorKind.SSH, "192.0.2.9", user="hop", key_file="/k", host_keys=(KEY,))
    endpoint = Endpoint(
        "gpu-01",
        ExecutorKind.SSH,
        "192.0.2.1",
        port=2222,
        user="unstick",
        key_file="/etc/unstick/keys/id",
        certificate_file="~/id-cert.pub",
        host_keys=(KEY,),
        known_hosts_file="/etc/ssh/known",
        host_authorities=(OTHER_KEY,),
        jump=jump,
        become=Become.SUDO,
        login=Login.SYSTEM,
        view=View.BOOT,
        confine=Confine.OFF,
        path="/opt/bin:/bin",
    )
    node = Node("gpu-01", endpoint, ("h100", "rack-1"), "k8s-a", {"k8s_name": "gpu-01", "rack": "7"})
    controller = Controller(
        "k8s-a",
        Endpoint("k8s-a", ExecutorKind.LOCAL, "k8s-a", path="/usr/local/bin", keeps_user=True),
        {"KUBECONFIG": "/etc/kube"},
    )
    assert inventory == Inventory({"gpu-01": node}, {"k8s-a": controller})


def test_the_address_defaults_to_the_name_and_local_needs_no_more_than_the_executor() -> None:
    inventory = build("nodes: {gpu-01: {executor: ssh}, here: {executor: local, view: private}}")

    assert inventory.nodes == {
        "gpu-01": Node("gpu-01", Endpoint("gpu-01", ExecutorKind.SSH, "gpu-01")),
        "here": Node("here", Endpoint("here", ExecutorKind.LOCAL, "here", view=View.PRIVATE)),
    }


def test_a_set_makes_one_node_for_each_name_and_fills_the_name_in() -> None:
    inventory = build("""
        nodes:
          "gpu[01-02]": {executor: ssh, address: "{name}.lab", attributes: {k8s_name: "{name}"}, pools: [a]}
        """)

    assert inventory.nodes == {
        name: Node(name, Endpoint(name, ExecutorKind.SSH, f"{name}.lab"), ("a",), None, {"k8s_name": name})
        for name in ("gpu01", "gpu02")
    }


def test_a_jump_may_be_another_node_which_may_jump_itself() -> None:
    inventory = build("""
        nodes:
          gpu: {executor: ssh, jump: inner}
          inner: {executor: ssh, jump: outer}
          outer: {executor: ssh}
        """)

    outer = Endpoint("outer", ExecutorKind.SSH, "outer")
    inner = Endpoint("inner", ExecutorKind.SSH, "inner", jump=outer)
    assert inventory.nodes["gpu"].endpoint == Endpoint("gpu", ExecutorKind.SSH, "gpu", jump=inner)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nodes: {a: {executor: ssh,\n veiw: boot}}", ":2: `veiw` is no word of an inventory here. Did you mean `v"),
        ("nodes: {}\nnode: {}", ":2: `node` is no word of an inventory here. Did you mean `nodes`?"),
        ("nodes:\n  a: {}", ":2: `executor` is missing. Add it, as in `executor: ssh`."),
        ("nodes:\n  a: {executor: docker}", ":2: `executor`: "),
        ("nodes:\n  a: {executor: ssh, port: 70000}", ":2: `port`: "),
        ("nodes:\n  a: {executor: ssh, port: '22'}", ":2: `port`: "),
        ("nodes:\n  a: {executor: ssh, pools: [true]}", ":2: "),
        ("nodes:\n  a: {executor: ssh, attributes: {rack: 1.5}}", ":2: `rack`: "),
        ("nodes:\n  a: {executor: ssh}\n  a: {executor: ssh}", ":3: The key `a` appears twice"),
        ("nodes:\n  a: {executor: ssh, host_key: AAAA}", ":2: "),
        ("nodes:\n  a: {executor: ssh, host_key: ssh-dss AAAA}", "is not a known type of public key"),
        ("nodes:\n  a: {executor: ssh, host_key: ssh-ed25519 AAAAB3NzaC1yc2E=}", "do not hold such a key"),
        ("nodes:\n  a: {executor: local, user: root}", ":2: `a`: `user` says nothing with `executor: local`"),
        ("nodes:\n  a: {executor: ssh, view: private}", "`view: private` is for `executor: local` only."),
        ("nodes:\n  a: {executor: ssh, path: bin}", "every folder in it begins with `/`."),
        ("nodes:\n  a: {executor: ssh, certificate_file: c}", "`certificate_file` needs `key_file` beside it."),
        ("nodes:\n  a: {executor: ssh, jump: b}", ":2: The jump host `b` is no node that is reached by SSH."),
        ("nodes:\n  a: {executor: ssh, jump: {user: x}}", ":2: `address` is missing."),
        ("nodes:\n  a: {executor: ssh, jump: {address: x, jmp: y}}", ":2: `jmp` is no word of an inventory here."),
        ("nodes:\n  a: {executor: ssh, jump: b}\n  b: {executor: ssh, jump: a}", "jumps in a circle: a -> b -> a."),
        ("nodes:\n  a: {executor: ssh, controller: k}", ":2: There is no controller `k`."),
        ("nodes:\n  'g[1-2]': {executor: ssh}\n  g2: {executor: ssh}", ":3: `g2` is named twice, first in line 2."),
        ("nodes:\n  a: {executor: ssh, address: x}\n  b: {executor: ssh, address: x}",
         ":3: `b` and `a` are one machine"),
        ("nodes:\n  p: {executor: local, view: private}\n  a: {executor: local}\n  b: {executor: local, address: x}",
         ":4: `b` and `a` are one machine: both are local, the machine of the service itself. Another machine is"),
        ("nodes:\n  'g[1-2]': {executor: ssh, address: x}", "in a set write `{name}` into `address`."),
        ("controllers:\n  k: {executor: local, env: {PATH: /x}}", "for PATH there is `path`."),
        ("controllers:\n  k: {executor: local, env: {LD_PRELOAD: /x}}", "`LD_PRELOAD` is set by unstick itself"),
        ("controllers:\n  k: {executor: local, env: {A-B: x}}", "`A-B` is no name of a variable."),
        ("nodes:\n  a: {executor: ssh, user: \"x\\ny\"}", "a sign that is not printed stands in it."),
        ("nodes: [a]", ":1: `nodes`: "),
        ("- a", ":1: "),
        ("a: &b c", ":1: `&b` is an anchor."),
    ],
)  # fmt: skip
def test_a_fault_is_refused_with_its_line(text: str, said: str) -> None:
    refused = refusal(text)

    assert refused.startswith("inventory.yaml:")
    assert said in refused


def test_two_machines_behind_two_jump_hosts_may_have_one_address() -> None:
    inventory = build("""
        nodes:
          a: {executor: ssh, address: 10.0.0.1, jump: {address: one}}
          b: {executor: ssh, address: 10.0.0.1, jump: {address: two}}
        """)

    assert list(inventory.nodes) == ["a", "b"]


def test_every_fault_is_told_at_once() -> None:
    refused = refusal("nodes:\n  a: {executor: ssh, prot: 1}\n  b: {executor: ssh, usr: x}")

    assert [line.split(" ")[0] for line in refused.splitlines()] == ["inventory.yaml:2:", "inventory.yaml:3:"]


def test_three_thousand_nodes_with_a_host_key_each_are_read() -> None:
    lines = [f"  gpu-{number}: {{executor: ssh, address: 10.0.{number // 250}.{number % 250}, host_key: '{KEY}'}}"
             for number in range(3000)]  # fmt: skip

    assert len(build("nodes:\n" + "\n".join(lines)).nodes) == 3000


def write(path: Path, text: str) -> None:
    # A new file in its place, as an editor or a deployment leaves it.
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.replace(path)


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "inventory.yaml"
    write(path, "nodes: {a: {executor: ssh}}")
    inventory = FileInventory(path)
    before = list(inventory.current().nodes)
    write(path, "nodes: {b: {executor: ssh}}")

    after = list(inventory.current().nodes)

    assert (before, after) == (["a"], ["b"])


def test_a_file_that_became_wrong_leaves_the_last_good_answer_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "inventory.yaml"
    write(path, "nodes: {a: {executor: ssh}}")
    inventory = FileInventory(path)
    good = inventory.current()
    write(path, "nodes: {a: {executor: shs}}")

    kept, again, problem = inventory.current(), inventory.current(), inventory.problem
    write(path, "nodes: {a: {executor: ssh}}")

    assert problem is not None
    assert kept == replace(good, problem=str(problem))
    assert again is kept
    assert inventory.current() == good
    assert f"{path}:1: `executor`:" in str(problem)
    assert inventory.problem is None


def test_a_file_that_was_never_good_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "inventory.yaml"

    with pytest.raises(ConfigInvalid, match="There is no inventory at"):
        FileInventory(path).current()


def test_a_file_that_vanished_leaves_the_last_good_answer(tmp_path: Path) -> None:
    path = tmp_path / "inventory.yaml"
    write(path, "nodes: {a: {executor: ssh}}")
    inventory = FileInventory(path)
    good = inventory.current()
    path.unlink()

    assert inventory.current().nodes == good.nodes
    assert inventory.current().problem == str(inventory.problem)


def test_a_file_that_breaks_and_is_mended_is_one_line_of_the_log_each(tmp_path: Path) -> None:
    path = tmp_path / "inventory.yaml"
    path.write_text("nodes: {a: {executor: local}}\n")
    inventory = FileInventory(path)
    inventory.current()

    with capture_logs() as lines:
        for text in ("nodes: {a: {exekutor: local}}\n", "nodes: {a: {executor: local}, b: {executor: ssh}}\n"):
            path.write_text(text)
            inventory.current()
            inventory.current()

    assert [(line["event"], line["log_level"]) for line in lines] == [
        ("inventory.broken", "warning"),
        ("inventory.mended", "info"),
    ]
    assert (lines[0]["file"], lines[0]["used"]) == (str(path), "the last good one")
    assert "`exekutor` is no word of an inventory here" in lines[0]["reason"]


def test_an_empty_file_is_told_what_an_inventory_looks_like(tmp_path: Path) -> None:
    path = tmp_path / "inventory.yaml"
    path.write_text("# soon\n")

    with pytest.raises(ConfigInvalid) as refused:
        FileInventory(path).current()

    assert str(refused.value) == (
        f"{path}:1: The file is empty. "
        "Write `nodes:` and below it a block for each machine, as config/inventory.example.yaml shows."
    )
