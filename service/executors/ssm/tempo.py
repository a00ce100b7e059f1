"""How fast and how patient the executor is; a test has AWS's minutes pass in seconds."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tempo:
    """Seconds, all but the first multiplied by it."""

    pace: float = 1.0
    #: Scripts that only read and come within so long of each other share a command.
    gather: float = 0.05
    #: SSM is asked how things stand this often at most; jobs that poll each second by themselves are known to throttle
    #: an account (https://github.com/aws/aws-rfdk/issues/1723), one that does so for all of them is not.
    look: float = 1.0
    #: What runs longer is looked at less often, up to this.
    slowest_look: float = 5.0
    #: The outputs of many that are over are fetched one by one, so far apart at least.
    fetch: float = 0.05
    #: While AWS throttles, looks are up to this far apart ...
    throttled_look: float = 30.0
    #: ... and commands, of which all threads together then send one in so long at most.
    throttled_send: float = 1.0
    #: A command that AWS has not taken for so long is given up.
    send_for: float = 300.0
    #: So long a command waits until fewer than two of ours are under way on its node.
    turn_for: float = 300.0
    #: So long after SSM should have told the end itself, nobody waits any more.
    beyond: float = 30.0
    #: What SSM lists is late by up to this.
    consistent: float = 5.0

    def of(self, seconds: float) -> float:
        """Return so many seconds at this pace."""
        return seconds * self.pace
