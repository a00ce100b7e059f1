"""Every pair of Status and StatusDetails, and what it says of a script."""

import pytest

from service.domain.script import NotStarted
from service.executors.ssm.statuses import Standing, judge

WAITS, MAY_RUN, OVER, NEVER = Standing.WAITS, Standing.MAY_RUN, Standing.OVER, Standing.NEVER_ARRIVED
UNREACHABLE, REFUSED = NotStarted.UNREACHABLE, NotStarted.REFUSED

PAIRS = [
    ("Pending", "Pending", WAITS, None),
    ("Delayed", "Delayed", WAITS, None),
    ("Pending", "Delayed", WAITS, None),
    ("InProgress", "Delayed", WAITS, None),
    ("InProgress", "InProgress", MAY_RUN, None),
    ("Cancelling", "Cancelling", MAY_RUN, None),
    ("Success", "Success", OVER, None),
    ("Failed", "Failed", OVER, None),
    ("TimedOut", "ExecutionTimedOut", OVER, None),
    ("Cancelled", "Cancelled", OVER, None),
    ("TimedOut", "DeliveryTimedOut", NEVER, UNREACHABLE),
    ("Failed", "Undeliverable", NEVER, UNREACHABLE),
    ("Cancelled", "Undeliverable", NEVER, UNREACHABLE),
    ("TimedOut", "Undeliverable", NEVER, UNREACHABLE),
    ("Cancelled", "Terminated", NEVER, REFUSED),
    ("Failed", "Terminated", NEVER, REFUSED),
    ("Failed", "InvalidPlatform", NEVER, REFUSED),
    ("Cancelled", "InvalidPlatform", NEVER, REFUSED),
    ("Failed", "AccessDenied", NEVER, REFUSED),
    ("Cancelled", "AccessDenied", NEVER, REFUSED),
    ("Failed", "RateExceeded", NEVER, UNREACHABLE),
    ("Cancelled", "RateExceeded", NEVER, UNREACHABLE),
    ("Failed", "LimitExceeded", NEVER, UNREACHABLE),
    ("Cancelled", "LimitExceeded", NEVER, UNREACHABLE),
    # Words of a command as a whole, and words that nobody knows: an end is an end, and says nothing more.
    ("Failed", "Incomplete", OVER, None),
    ("Failed", "NoInstancesInTag", OVER, None),
    ("Failed", "NewWord", OVER, None),
    ("Success", "NewWord", OVER, None),
    ("TimedOut", "TimedOut", OVER, None),
    ("NewWord", "NewWord", Standing.STRANGE, None),
    ("", "", Standing.STRANGE, None),
]


@pytest.mark.parametrize(("status", "details", "standing", "cause"), PAIRS)
def test_each_pair_has_one_meaning(status: str, details: str, standing: Standing, cause: NotStarted | None) -> None:
    meaning = judge(status, details, never_begun=True)

    assert (meaning.standing, meaning.cause) == (standing, cause)


@pytest.mark.parametrize("pair", [("TimedOut", "DeliveryTimedOut"), ("Cancelled", "Terminated")])
def test_what_may_have_begun_is_not_taken_for_undelivered(pair: tuple[str, str]) -> None:
    meaning = judge(*pair, never_begun=False)

    assert (meaning.standing, meaning.cause) == (Standing.OVER, None)
    assert "the script may have begun before" in meaning.words


@pytest.mark.parametrize("details", ["Delivery Timed Out", "deliverytimedout", " DELIVERY TIMED OUT "])
def test_blanks_and_case_say_nothing(details: str) -> None:
    assert judge("Timed Out", details, never_begun=True) == judge("TimedOut", "DeliveryTimedOut", never_begun=True)


def test_only_what_ended_or_never_arrived_has_words() -> None:
    for status, details, standing, _ in PAIRS:
        assert bool(judge(status, details, never_begun=True).words) == (standing not in (WAITS, MAY_RUN))
