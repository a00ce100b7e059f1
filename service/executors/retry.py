"""The one way to try again: only what is provably not sent, with growing and random pauses."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tenacity import Retrying, retry_if_exception, stop_after_attempt, stop_after_delay, wait_random_exponential

from service.executors.not_sent import NotSent

T = TypeVar("T")


@dataclass(frozen=True)
class Retry:
    """How often and how long a refused beginning is tried again.

    OpenSSH drops unauthenticated connections at random above MaxStartups (default 10:30:100, sshd_config(5)),
    so many nodes behind one jump host need several tries.
    """

    attempts: int = 12
    seconds: float = 30.0
    longest_pause: float = 4.0
    sleep: Callable[[float], None] = time.sleep

    def __call__(self, begin: Callable[[], T]) -> T:
        """Return what `begin` returns; raise its last NotSent when the budget is spent."""
        policy = Retrying(
            retry=retry_if_exception(_may_be_tried_again),
            stop=stop_after_attempt(self.attempts) | stop_after_delay(self.seconds),
            wait=wait_random_exponential(multiplier=0.2, max=self.longest_pause),
            sleep=self.sleep,
            reraise=True,
        )
        return policy(begin)


def _may_be_tried_again(error: BaseException) -> bool:
    return isinstance(error, NotSent) and error.again
