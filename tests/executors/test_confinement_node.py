"""A confined look on a booted node: systemd, logind and the journal answer it, and do nothing for it."""

import shutil
from collections.abc import Iterator
from dataclasses import replace

import pytest

from lab.needs import need_fuse
from lab.nodes import Node
from service.domain.node import Confine, Endpoint, ExecutorKind, View
from service.domain.script import Stream
from service.executors.local import LocalExecutor
from tests.executors.envelope_place import Heard, order

pytestmark = pytest.mark.needs_root

UNIT = "systemd-journald.service"
THERE = Endpoint("gpu-01", ExecutorKind.LOCAL, "gpu-01", view=View.BOOT, confine=Confine.REQUIRED)


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    need_fuse()
    with Node("gpu-01") as booted:
        yield booted


def test_systemd_answers_a_confined_look_and_does_nothing_for_it(node: Node) -> None:
    program, *rest = node.enter_prefix
    executor = LocalExecutor(prefix=[shutil.which(program) or program, *rest])
    heard = Heard()
    text = f"""
asked() {{ systemctl show -p InvocationID --value {UNIT}; }}
before=$(asked)
[ -n "$before" ]
systemctl is-active {UNIT}
loginctl list-users --no-legend >/dev/null
[ -n "$(journalctl -b --no-pager -n 1 -o cat)" ]
for act in 'restart {UNIT}' 'stop {UNIT}' 'mask {UNIT}' 'daemon-reload' 'reboot' 'set-default rescue.target'; do
  ! systemctl --no-ask-password $act || echo "done: $act"
done
! systemd-run --no-ask-password true || echo 'done: systemd-run'
! loginctl --no-ask-password enable-linger root || echo 'done: linger'
! fusermount3 -u / || echo 'done: fusermount'
[ "$before" = "$(asked)" ]
"""

    report = executor.start(replace(order(text), endpoint=THERE), heard)
    executor.close()

    assert (report.exit_code, report.reason, heard.text()) == (0, "", b"active\n"), heard.text(Stream.STDERR)
