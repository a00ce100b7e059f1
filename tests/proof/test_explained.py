"""What is explained of who may do what is what is decided, over twenty thousand policies."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from tests.proof.counts import count
from tests.support.explained import CASES, Case, allowed_by_the_page, decisions, files_alone

pytestmark = pytest.mark.proof

EXAMPLES = count("explained", 20_000)


def test_what_is_explained_is_what_is_decided(record_property: Callable[[str, object], None], tmp_path: Path) -> None:
    service, seen = files_alone(tmp_path), Counter[bool]()

    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(CASES)
    def agree(case: Case) -> None:
        wanted = allowed_by_the_page(case)
        assert set(decisions(service, case).values()) == {wanted}
        seen[wanted] += 1

    agree()

    record_property("proof", "what is explained of persons, tokens and rights is what is decided")
    record_property("count", f"{seen.total()} policies and persons: {seen[True]} allowed, {seen[False]} refused")
    assert seen.total() >= EXAMPLES * 0.9
    assert min(seen.values()) >= EXAMPLES // 20
