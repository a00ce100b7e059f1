"""A reviewed file that is read again when it changes; one that became wrong does not take the last good answer away."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import structlog

from service.domain.errors import ConfigInvalid

T = TypeVar("T")
_Stamp = tuple[int, int, int]

log = structlog.get_logger()


def _nothing() -> object:
    return None


@dataclass(frozen=True)
class _Answer(Generic[T]):
    stamp: _Stamp | None
    #: What else the file was judged against.
    surroundings: object
    value: T | None
    problem: ConfigInvalid | None
    #: Whether the value is that of a file, and not what stands for an absent one.
    of_a_file: bool


class KeptFile(Generic[T]):
    """One file. Safe for many threads.

    `problem` says why the file as it is now is not used; `current` gives the last good one meanwhile.
    """

    def __init__(
        self,
        path: Path,
        load: Callable[[Path], T],
        *,
        word: str,
        if_absent: T | None = None,
        gone: ConfigInvalid | None = None,
        surroundings: Callable[[], object] = _nothing,
    ) -> None:
        """Take the path and how it is read (ConfigInvalid, OSError); nothing is read yet.

        `word` names the file in the log, such as `rules`. `if_absent` stands for a file that was never there, and
        `gone` says that there is none. `surroundings` is what else decides whether the file is good: when it
        changes, a bad file is judged again.
        """
        self._path = path
        self._load = load
        self._word = word
        self._if_absent = if_absent
        self._gone = gone or ConfigInvalid(f"There is no file {path}.", "Write it, or restart the service without it.")
        self._surroundings = surroundings
        self._lock = threading.Lock()
        self._answer: _Answer[T] = _Answer(None, None, None, None, of_a_file=False)

    def current(self) -> T:
        """Return what the file says; ConfigInvalid when it is wrong and none was good before.

        It costs one look at the file's date while the file is good.
        """
        return self.look()[0]

    def look(self) -> tuple[T, ConfigInvalid | None]:
        """Return the same with why the file as it is now is not used; None when it is."""
        answer = self._refresh(thorough=False)
        if answer.value is None:
            problem = answer.problem or ConfigInvalid(f"{self._path} was not read.")
            # It is kept and raised again and again; without this each time would add to its traceback.
            raise problem.with_traceback(None)
        return answer.value, answer.problem

    @property
    def problem(self) -> ConfigInvalid | None:
        """Return why the file as it is now is not used, its surroundings looked at too; None when it is."""
        return self._refresh(thorough=True).problem

    def _refresh(self, *, thorough: bool) -> _Answer[T]:
        with self._lock:
            kept = self._answer
            self._answer = self._read(kept, thorough=thorough)
            self._tell(kept, self._answer)
            return self._answer

    def _read(self, kept: _Answer[T], *, thorough: bool) -> _Answer[T]:
        stamp: _Stamp | None = None
        surroundings: object = None
        try:
            stamp = _stamp(self._path)
            if stamp == kept.stamp and kept.problem is None and not thorough:
                return kept
            surroundings = self._surroundings()
            if (stamp, surroundings) == (kept.stamp, kept.surroundings):
                return kept
            return _Answer(stamp, surroundings, self._load(self._path), None, of_a_file=True)
        except ConfigInvalid as problem:
            return _Answer(stamp, surroundings, kept.value, problem, kept.of_a_file)
        except FileNotFoundError:
            if not kept.of_a_file and self._if_absent is not None:
                return _Answer(None, None, self._if_absent, None, of_a_file=False)
            return _Answer(None, None, kept.value, self._gone, kept.of_a_file)
        except OSError as error:
            unreadable = f"{self._path} cannot be read ({error.strerror})."
            told = ConfigInvalid(unreadable, f"Look with `ls -l {self._path}`.")
            return _Answer(None, None, kept.value, told, kept.of_a_file)

    def _tell(self, before: _Answer[T], after: _Answer[T]) -> None:
        """Log once that a file which was good is not used any more, and once that it is again."""
        if before.value is None or (before.problem is None) == (after.problem is None):
            return
        if after.problem is not None:
            reason = str(after.problem)
            log.warning(f"{self._word}.broken", file=str(self._path), reason=reason, used="the last good one")
        else:
            log.info(f"{self._word}.mended", file=str(self._path))


def _stamp(path: Path) -> _Stamp:
    status = path.stat()
    return status.st_mtime_ns, status.st_size, status.st_ino
