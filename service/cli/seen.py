"""One thing that `unstick doctor` has looked at."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Seen:
    """One thing that was looked at."""

    good: bool
    text: str
    way_out: str = ""
    #: Whether it is neither right nor wrong by itself, but for a person to judge.
    note: bool = False

    @property
    def word(self) -> str:
        """Return it in a word of four letters, or three and a space."""
        if not self.good:
            return "BAD "
        return "note" if self.note else "good"


def noted(text: str) -> Seen:
    """Return what a person is to know or to judge; nothing is wrong for it."""
    return Seen(True, text, note=True)
