"""What a test compares of a booted node before and after, without what comes and goes by itself."""

from lab.nodes import Node
from lab.process import wait_until


def unit_files(node: Node) -> list[str]:
    """Return the unit files with their states; a transient one is a login of somebody, or a program of the test."""
    listed = node.run(["systemctl", "list-unit-files", "--no-legend"]).stdout
    return sorted(line for line in listed.splitlines() if line.split()[1] != "transient")


def mounts(node: Node) -> list[str]:
    """Return the mounts with their options; a login has a folder in /run/user, also for some seconds afterwards."""
    table = node.run(["cat", "/proc/1/mountinfo"]).stdout
    return [line for line in table.splitlines() if not line.split()[4].startswith("/run/user/")]


def wait_until_nobody_is_logged_in(node: Node) -> None:
    """Wait until logind has let go of those who were."""
    sessions = ["loginctl", "list-sessions", "--no-legend"]
    wait_until(lambda: node.run(sessions).stdout == "", f"nobody is logged in on {node.name}")
