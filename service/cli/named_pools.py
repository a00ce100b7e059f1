"""The pools that rules, policy and notices name, held against those that there are: a mistyped one means no node."""

import difflib
from collections.abc import Iterable, Iterator
from contextlib import suppress

from service import main
from service.app.load_runbooks import RunbookFolder
from service.domain.errors import ConfigInvalid
from service.domain.node import Inventory
from service.settings import Settings
from service.triggers.policy_file import FilePolicy
from service.triggers.rules_file import FileRules

#: More names are not listed.
_MOST = 20


def named_pools(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield each place that names a pool, and the pool. A file that cannot be used is told of elsewhere."""
    with suppress(ConfigInvalid):
        rules = FileRules(settings.config / "rules.yaml", RunbookFolder(settings.runbooks_folder)).current()
        yield from ((f"The sweep {one.name} of rules.yaml", one.pool) for one in rules.sweeps if one.pool is not None)
    with suppress(ConfigInvalid):
        policy = FilePolicy(settings.config / "policy.yaml").current()
        for freeze in policy.freezes:
            yield from ((f"The freeze {freeze.name} of policy.yaml", pool) for pool in freeze.pools)
        yield from (("`occupants` of policy.yaml", pool) for pool in policy.occupants.only_for)
        for right in policy.rights or ():
            yield from ((right.place, pool) for pool in right.reach.pools if not set(pool) & {"*", "?"})
    with suppress(ConfigInvalid):
        service = main.with_notices(main.files_service(settings, clock=main.SystemClock()), settings)
        for number, rule in enumerate(service.notify.current().rules, start=1):
            yield from ((f"Entry {number} under `notices` of notify.yaml", pool) for pool in sorted(rule.pools))


def unknown_pools(named: Iterable[tuple[str, str]], inventory: Inventory) -> Iterator[tuple[str, str]]:
    """Yield for each place whose pool has no node what is wrong, and the way out.

    Nothing is said while a source of nodes does not answer: its pools are not known then.
    """
    if any(source.problem is not None for source in inventory.sources):
        return
    pools = sorted({pool for node in inventory.nodes.values() for pool in node.pools})
    for place, pool in named:
        if pool not in pools:
            close = difflib.get_close_matches(pool, pools, n=1)
            there_are = f"The pools are: {', '.join(pools[:_MOST])}." if pools else "No node is in a pool."
            yield (
                f"{place} names the pool {pool}, and no node is in it.",
                f"Do you mean {close[0]}?" if close else there_are,
            )
