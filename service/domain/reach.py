"""How far a token or a right goes: which runbooks, and the nodes of which pools."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

_GLOB = re.compile(r"[A-Za-z0-9_.:/*?-]{1,200}")


@dataclass(frozen=True)
class Reach:
    """Globs of names, in which `*` is any text and `?` one character; without any, every name."""

    runbooks: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()

    def covers(self, runbook: str | None, pools: Iterable[str] | None) -> bool:
        """Whether it goes as far as this runbook on a node that is in these pools.

        None stands for all of them: a hold stops every runbook, and a pause every runbook on every node. A node in
        several pools is reached by each of them, and one in no pool by no reach that names pools.
        """
        return _within(self.runbooks, None if runbook is None else (runbook,)) and _within(self.pools, pools)

    @property
    def words(self) -> str:
        """Return it as a person would say it, such as `runbooks node-*, pools h100`."""
        named = (("runbooks", self.runbooks), ("pools", self.pools))
        return ", ".join(f"{what} {' '.join(globs)}" for what, globs in named if globs) or "everything"


EVERYTHING = Reach()


def is_glob(text: str) -> bool:
    """Whether a text can stand in a reach: a name, in which `*` and `?` have their meaning."""
    return _GLOB.fullmatch(text) is not None


def _within(globs: tuple[str, ...], names: Iterable[str] | None) -> bool:
    if not globs or "*" in globs:
        return True
    return names is not None and any(fnmatchcase(name, glob) for name in names for glob in globs)
