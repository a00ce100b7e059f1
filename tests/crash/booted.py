"""A machine for the crash matrix that really boots: a node of the lab, reached over SSH."""

import shutil
from pathlib import Path

from lab.nodes import Node
from service.domain.node import Confine, Endpoint, ExecutorKind, View

INVENTORY = """nodes:
  {node.name}:
    executor: ssh
    address: {node.address}
    port: {node.port}
    key_file: {node.private_key}
    host_key: "{node.host_key}"
    view: boot
    confine: off
"""


class BootedMachine:
    """A booted node, and the file on its disk in which scripts count their executions."""

    def __init__(self, node: Node) -> None:
        """Give the node a folder for what the scripts leave."""
        self.node = node
        #: The disk outlives every boot, and is there while the node is down.
        self.disk = node.folder_here / "disk/machine"
        self.reset()

    def executions(self) -> list[str]:
        """Give what the scripts have written, in order."""
        file = self.disk / "executions"
        return file.read_text().splitlines() if file.exists() else []

    def node_is_down(self) -> bool:
        """Tell whether the node has gone down to boot and is not up again."""
        return not (self.node.folder_here / "nspawn.pid").exists()

    def reset(self) -> None:
        """Forget what scripts have done."""
        shutil.rmtree(self.disk, ignore_errors=True)
        self.disk.mkdir()

    def write_config(self, folder: Path) -> Path:
        """Write a configuration with this node into a folder, and return the folder."""
        (folder / "inventory.yaml").write_text(INVENTORY.format(node=self.node))
        return folder

    def endpoint(self) -> Endpoint:
        """Return how the node is reached."""
        return Endpoint(
            self.node.name,
            ExecutorKind.SSH,
            self.node.address,
            port=self.node.port,
            key_file=str(self.node.private_key),
            host_keys=(self.node.host_key,),
            view=View.BOOT,
            confine=Confine.OFF,
        )
