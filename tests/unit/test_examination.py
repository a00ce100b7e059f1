"""What doctor says of sources of nodes."""

from datetime import UTC, datetime, timedelta

import pytest

from service.cli import examination
from service.domain.node import Inventory, SourceKind, SourceState

NOW = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)


@pytest.mark.parametrize(("nodes", "problem", "good"), [(4, None, True), (0, None, False), (4, "No answer.", False)])
def test_a_source_that_is_silent_or_finds_no_node_is_not_good(nodes: int, problem: str | None, good: bool) -> None:
    source = SourceState("fleet", SourceKind.SSM, NOW, timedelta(minutes=5), problem, nodes)

    seen = list(examination._sources(Inventory(sources=(source,))))

    assert [one.good for one in seen] == [good]
