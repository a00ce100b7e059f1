"""One thing that `unstick doctor` has looked at."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Seen:
    """One thing that was looked at."""

    good: bool
    text: str
    way_out: str = ""
