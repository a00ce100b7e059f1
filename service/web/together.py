"""Does together what many requests ask at the same time: one thread, one look at the record, one commit for all.

What is asked while a call is under way waits for the next one, and a request that is alone waits for nobody. Each call
begins after everything in it was asked, so no request gets an answer that is older than itself.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from starlette.concurrency import run_in_threadpool

from service.domain.errors import Unavailable

Asked = TypeVar("Asked")
Told = TypeVar("Told")


@dataclass(frozen=True)
class _Waiting(Generic[Asked, Told]):
    asked: Asked
    size: int
    told: "asyncio.Future[Told]"


class Together(Generic[Asked, Told]):
    """Used on the event loop alone; what it plays runs in a thread, one call at a time."""

    def __init__(
        self, play: Callable[[Sequence[Asked]], Sequence[Told | Exception]], *, most: int, most_bytes: int
    ) -> None:
        """Play at most so many at once, and no more bytes unless one has more by itself.

        `play` returns for each, in their order, what is told or raised. What it raises itself is Unavailable for all;
        after anything else each is played by itself, so that what is wrong with one is the answer to that one alone.
        """
        self._play = play
        self._most = most
        self._most_bytes = most_bytes
        self._waiting: deque[_Waiting[Asked, Told]] = deque()
        self._playing: asyncio.Task[None] | None = None

    async def ask(self, asked: Asked, *, size: int = 0) -> Told:
        """Return what is told of it, or raise it; `size` in bytes."""
        one: _Waiting[Asked, Told] = _Waiting(asked, size, asyncio.get_running_loop().create_future())
        self._waiting.append(one)
        if self._playing is None:
            self._playing = asyncio.create_task(self._play_all())
        return await one.told

    async def _play_all(self) -> None:
        try:
            while self._waiting:
                await self._play_some(self._next())
        finally:
            self._playing = None
            # Nothing is left but where the loop itself ends, and every request on it.
            while self._waiting:
                self._waiting.popleft().told.cancel()

    def _next(self) -> Sequence[_Waiting[Asked, Told]]:
        some = [self._waiting.popleft()]
        size = some[0].size
        while self._waiting and len(some) < self._most and size + self._waiting[0].size <= self._most_bytes:
            some.append(self._waiting.popleft())
            size += some[-1].size
        return some

    async def _play_some(self, some: Sequence[_Waiting[Asked, Told]]) -> None:
        told = await self._played(some)
        if isinstance(told, Unavailable):
            _tell(some, [Unavailable(told.reason, told.way_out) for _ in some])
        elif not isinstance(told, BaseException):
            _tell(some, told)
        elif len(some) == 1:
            _tell(some, [told])
        else:
            for one in some:
                await self._play_some([one])

    async def _played(self, some: Sequence[_Waiting[Asked, Told]]) -> Sequence[Told | Exception] | BaseException:
        # Gathered, so that whatever it raises is a value, to be raised where it was asked.
        told = await asyncio.gather(run_in_threadpool(self._play, [one.asked for one in some]), return_exceptions=True)
        return told[0]


def _tell(some: Sequence[_Waiting[Asked, Told]], told: Sequence[Told | BaseException]) -> None:
    """Give each its answer; a request that has ended meanwhile wants none."""
    for one, answer in zip(some, told, strict=True):
        if one.told.done():
            continue
        if isinstance(answer, BaseException):
            one.told.set_exception(answer)
        else:
            one.told.set_result(answer)
