"""Plays the kubelet of one node: it follows the node's boots and tells the cluster of them."""

import threading
from collections.abc import Callable

from lab.closing import Closing
from lab.kube.cluster import Cluster
from lab.kube.merging import STRATEGIC
from lab.kube.objects import now


class Kubelet(Closing):
    """Reports another boot with everything a kubelet would: NotReady for a moment, the new bootID, then Ready."""

    def __init__(self, cluster: Cluster, name: str, *, boot_id: Callable[[], str], every: float = 0.2) -> None:
        """Follow a node; `boot_id` gives its boot, and OSError or LookupError while it is down."""
        self.reports = True
        #: What it says after a boot; a test lets a GPU be missing, or the node stay NotReady.
        self.gpus_after: int | None = None
        self.ready_after = True
        self._cluster, self._name, self._boot_id, self._every = cluster, name, boot_id, every
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop following."""
        self._ended.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._ended.wait(self._every):
            try:
                boot = self._boot_id()
            except (OSError, LookupError):
                continue
            known = self._cluster.node(self._name)["status"]["nodeInfo"]["bootID"]
            if self.reports and boot != known:
                self._report(boot)

    def _report(self, boot: str) -> None:
        gpus = {} if self.gpus_after is None else {"nvidia.com/gpu": str(self.gpus_after)}
        self._say({"nodeInfo": {"bootID": boot}, "allocatable": gpus}, ready=False)
        self._cluster.forget_terminating(self._name)
        # The API tells whole seconds; a transition in the second of the reboot would not be a later one.
        if self.ready_after and not self._ended.wait(1.1):
            self._say({}, ready=True)

    def _say(self, status: dict[str, object], *, ready: bool) -> None:
        moment = now()
        condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": moment, "lastHeartbeatTime": moment}
        patch = {"status": status | {"conditions": [condition]}}
        self._cluster.patch("nodes", ("", self._name), patch, kind=STRATEGIC)
