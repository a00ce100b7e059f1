"""What `policy explain` says of any person under any policy is what the service does, and what the pages say."""

from pathlib import Path

from hypothesis import given, settings

from tests.support.explained import CASES, Case, allowed_by_the_page, decisions, files_alone

SERVICE = files_alone(Path("none"))


@settings(max_examples=200)
@given(CASES)
def test_what_is_explained_is_what_is_decided(case: Case) -> None:
    assert set(decisions(SERVICE, case).values()) == {allowed_by_the_page(case)}
