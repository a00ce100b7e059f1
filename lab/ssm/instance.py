"""A machine as SSM knows it: how to get onto it, and what the service tells of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

Prefix = Callable[[], Sequence[str]]


def here() -> Sequence[str]:
    """Give the command line prefix of this machine itself: none."""
    return ()


@dataclass
class Instance:
    """One managed machine; a test may change `ping`, `tags` and `state` while the server runs.

    `prefix` gives the words that start a program on the machine, for instance those of nsenter. It is asked each time:
    a ProcessLookupError or an OSError means that the machine is down, and other words that it has booted anew. `reboot`
    is what happens when a script ends with 194. `ping` other than Online cuts the agent off; `shown_ping` only lies.
    """

    id: str
    prefix: Prefix = here
    name: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    platform: str = "Linux"
    ping: str = "Online"
    computer_name: str = ""
    reboot: Callable[[], object] | None = None
    state: str = "Running"  # Pending, Running, Stopping, Stopped, Terminated: as of the EC2 instance
    address: str = "198.18.77.2"
    agent_version: str = "3.3.1142.0"
    shown_ping: str | None = None
    iam_role: str = ""
    activation: str = ""

    def place(self) -> tuple[str, ...] | None:
        """Give the prefix of the machine's present boot, or None while it is down."""
        try:
            return tuple(self.prefix())
        except OSError:  # ProcessLookupError and FileNotFoundError are of this kind
            return None
