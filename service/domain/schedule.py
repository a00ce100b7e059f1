"""When something is due, in the five fields of cron, in UTC. Read by cronsim (https://github.com/cuu508/cronsim)."""

import itertools
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cronsim import CronSim, CronSimError

from service.domain.errors import InvalidInput

_FIELDS = "minute, hour, day of month, month, day of week"
_WAY_OUT = f"Write five fields ({_FIELDS}) in UTC, such as `17 3 * * *` for 03:17 each night."
#: From here on a new schedule is tried; 2024 is a leap year.
_TRIED_FROM = datetime(2024, 1, 1, tzinfo=UTC)
#: So many times in a row tell how near two of them may be.
_TRIED = 40


@dataclass(frozen=True)
class Schedule:
    """A cron expression that was read once, by `read_schedule`."""

    text: str

    def after(self, moment: datetime) -> datetime:
        """Return the first time after a moment."""
        return next(CronSim(self.text, moment.astimezone(UTC)))

    def shortest_gap(self) -> timedelta:
        """Return the shortest time between two of its times, as far as the first ones tell."""
        times = [self.after(_TRIED_FROM)]
        while len(times) < _TRIED:
            times.append(self.after(times[-1]))
        return min(later - earlier for earlier, later in itertools.pairwise(times))


def read_schedule(text: str) -> Schedule:
    """Return the schedule of a text; InvalidInput says which field cannot be read."""
    fields = text.split()
    if len(fields) != 5:
        raise InvalidInput(f"has {len(fields)} fields, and a schedule has five.", _WAY_OUT)
    schedule = Schedule(" ".join(fields))
    try:
        schedule.after(_TRIED_FROM)
    except CronSimError as error:
        # Its words are `Bad day-of-month` and the like.
        wrong = str(error).removeprefix("Bad ").replace("-", " ")
        raise InvalidInput(f"has a {wrong} that cannot be read, or that never comes.", _WAY_OUT) from error
    except StopIteration as error:
        raise InvalidInput("names a day that never comes.", _WAY_OUT) from error
    return schedule
