"""What stands for a port that a command does without."""

from typing import Any

from service.domain.errors import BrokenRule


class _Absent:
    def __init__(self, what: str) -> None:
        self._what = what

    def __getattr__(self, name: str) -> Any:
        raise BrokenRule(f"This command does without the {self._what}, and asked it for {name}.")


def absent(what: str) -> Any:
    """Return what raises BrokenRule when anything is asked of it; `what` names the port, such as `database`."""
    return _Absent(what)
