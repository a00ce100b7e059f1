"""Which git revision a folder is checked out at, read from git's own files without running git.

The layout is that of gitrepository-layout(5). It says what was checked out, not that the files are
unchanged since: the digest of each file tells that.
"""

import re
from pathlib import Path

_REVISION = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def git_revision(folder: Path) -> str:
    """Return the commit that the working tree around a folder stands at, or empty when nobody can say."""
    try:
        git = _git_folder(folder.resolve())
        return _head(git) if git is not None else ""
    except (OSError, ValueError):
        return ""


def _git_folder(folder: Path) -> Path | None:
    for place in (folder, *folder.parents):
        dot_git = place / ".git"
        if dot_git.is_dir():
            return dot_git
        if dot_git.is_file():
            target = dot_git.read_text().removeprefix("gitdir:").strip()
            return place / target
    return None


def _head(git: Path) -> str:
    head = (git / "HEAD").read_text().strip()
    if not head.startswith("ref:"):
        return head if _REVISION.fullmatch(head) else ""
    name = head.removeprefix("ref:").strip()
    common_file = git / "commondir"
    common = git / common_file.read_text().strip() if common_file.is_file() else git
    for loose in (git / name, common / name):
        if loose.is_file():
            revision = loose.read_text().strip()
            return revision if _REVISION.fullmatch(revision) else ""
    packed = common / "packed-refs"
    for line in packed.read_text().splitlines() if packed.is_file() else ():
        revision, _, ref = line.partition(" ")
        if ref == name and _REVISION.fullmatch(revision):
            return revision
    return ""
