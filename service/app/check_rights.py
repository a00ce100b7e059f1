"""What is probably not meant in the rights of a policy: names that name nothing, and runs that nobody could approve."""

from collections.abc import Iterator, Sequence

from service.app.finding import Finding, Severity
from service.domain.node import Inventory
from service.domain.person import Permission
from service.domain.reach import Reach
from service.domain.rights import EVERYBODY, GROUP, About, Right
from service.domain.runbook import ApprovalKind, Runbook


def rights_warnings(rights: Sequence[Right], runbooks: Sequence[Runbook], inventory: Inventory) -> Iterator[Finding]:
    """Yield a warning for each glob that names nothing there is, and for each person whose runs nobody could approve.

    Pools are not looked at while a source of nodes does not answer: they are not known then.
    """
    pools = sorted({pool for node in inventory.nodes.values() for pool in node.pools})
    known = not any(source.problem is not None for source in inventory.sources)
    for right in rights:
        for glob in right.reach.runbooks:
            if not any(Reach((glob,)).covers(one.name, ()) for one in runbooks):
                names = ", ".join(one.name for one in runbooks)
                yield _warning(right, f"No runbook is called {glob}.", f"The runbooks are: {names}.")
        for glob in right.reach.pools if known else ():
            if not any(Reach((), (glob,)).covers("", (pool,)) for pool in pools):
                yield _warning(right, f"No node is in a pool {glob}.", f"The pools are: {', '.join(pools) or 'none'}.")
    yield from _unapproved(rights, runbooks, pools)


def _unapproved(rights: Sequence[Right], runbooks: Sequence[Runbook], pools: Sequence[str]) -> Iterator[Finding]:
    """Yield a warning for each person who may request what nobody else may approve."""
    said: set[str] = set()
    asking = [one for one in runbooks if any(step.approval is ApprovalKind.SECOND_PERSON for step in one.steps)]
    for runbook in asking:
        for pool in pools:
            about = About(runbook.name, frozenset({pool}))
            approvers = {who for one in rights if one.gives(Permission.APPROVE, about) for who in one.who}
            for right in rights:
                if not right.gives(Permission.REQUEST, about):
                    continue
                for who in sorted(right.who - said):
                    if not approvers - {who} and who != EVERYBODY and not who.startswith(GROUP):
                        said.add(who)
                        reason = f"{who} may request {runbook.name} in the pool {pool}, and nobody else may approve it."
                        yield _warning(
                            right, reason, "Its second gate would wait until it expires: let others approve."
                        )


def _warning(right: Right, reason: str, way_out: str) -> Finding:
    file, _, line = right.place.rpartition(":")
    return Finding(file, int(line), reason, way_out, Severity.WARNING)
