"""Times as persons type them."""

from datetime import UTC, datetime, timedelta

import pytest

from service.cli.moments import parse_moment
from service.domain.errors import InvalidInput

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("30m", NOW + timedelta(minutes=30)),
        ("12h", NOW + timedelta(hours=12)),
        ("90d", NOW + timedelta(days=90)),
        ("2026-12-01T02:00:00+02:00", datetime(2026, 12, 1, 0, 0, tzinfo=UTC)),
        ("2026-12-01T00:00:00Z", datetime(2026, 12, 1, 0, 0, tzinfo=UTC)),
    ],
)
def test_a_time_is_read_as_a_moment_in_utc(text: str, moment: datetime) -> None:
    assert parse_moment(text, now=NOW) == moment


@pytest.mark.parametrize(
    "text", ["", "soon", "5", "5 h", "-5h", "2026-12-01T00:00:00", "2026-13-01", "9999-12-31T23:59:59-23:59"]
)
def test_what_could_mean_two_moments_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_moment(text, now=NOW)

    assert refused.value.way_out
