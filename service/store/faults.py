"""What an error of the database means: whose fault it is, and whether another try may help."""

from enum import StrEnum

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError, StatementError
from sqlalchemy.exc import TimeoutError as NoConnectionFree

from service.domain.errors import BrokenRule, Conflict, InvalidInput, NotFound, Unavailable, UnstickError

# PostgreSQL's codes (Appendix A of its manual): deadlock, serialization, lock not available.
_CONTENTION = frozenset({"40P01", "40001", "55P03"})
# The server ends sessions (admin shutdown, crash, starting up) or has no room for another.
_GONE = frozenset({"57P01", "57P02", "57P03", "53300"})
# The database or its disk is full.
_FULL = frozenset({"53100", "SQLITE_FULL"})
_SQLITE_CONTENTION = ("SQLITE_BUSY", "SQLITE_LOCKED")


#: Where to look for a thing that is not there.
_LISTED = {
    "run": "`unstick runs` (GET /api/v1/runs) lists the runs.",
    "node run": "`unstick runs` (GET /api/v1/runs) lists the runs, and each shows its nodes.",
    "attempt": "`unstick show RUN --json` (GET /api/v1/runs/{run_id}) names the attempts of a run.",
    "gate": "`unstick show RUN` names the gates of a run; GET /api/v1/approvals?state=all lists all of them.",
    "token": "`unstick token list` lists the tokens.",
}


class Fault(StrEnum):
    """Why a transaction did not go through."""

    #: Somebody else had the lock; trying again helps.
    CONTENTION = "contention"
    #: The server or the connection is gone; a new connection may help.
    GONE = "gone"
    FULL = "full"
    #: What was to be written breaks a constraint or cannot be stored: the writer's own fault.
    REFUSED = "refused"
    OTHER = "other"


def fault_of(error: SQLAlchemyError) -> Fault:
    """Say what kind of fault an error is."""
    if isinstance(error, NoConnectionFree):
        return Fault.CONTENTION
    if not isinstance(error, DBAPIError):
        return Fault.REFUSED if isinstance(error, StatementError) else Fault.OTHER
    code = _code(error)
    if code in _CONTENTION or code.startswith(_SQLITE_CONTENTION):
        return Fault.CONTENTION
    if error.connection_invalidated or code in _GONE or code.startswith("08"):
        return Fault.GONE
    if code in _FULL:
        return Fault.FULL
    return Fault.REFUSED if isinstance(error, IntegrityError | DataError) else Fault.OTHER


def unavailable(error: SQLAlchemyError, *, committing: bool = False) -> Unavailable:
    """Return the refusal that a caller gets when nothing of his was written, or nobody knows."""
    detail = _words(error)
    if committing and fault_of(error) is Fault.GONE:
        return Unavailable(
            f"The database was lost during the commit ({detail}).",
            "It may or may not have been recorded; look before you ask again.",
        )
    match fault_of(error):
        case Fault.CONTENTION:
            return Unavailable(
                f"The database is locked by another process ({detail}).", "Nothing was recorded; try again."
            )
        case Fault.GONE:
            return Unavailable(
                f"The database does not answer ({detail}).", "Nothing was recorded; try again when it is back."
            )
        case Fault.FULL:
            return Unavailable(f"The disk of the database is full ({detail}).", "Make room, then try again.")
        case Fault.REFUSED | Fault.OTHER:
            return Unavailable(f"The database refused ({detail}).", "Run `unstick doctor`; nothing was recorded.")


def missing(what: str, key: str) -> NotFound:
    """Return the error for something that is not in the record, with where to look for it."""
    return NotFound(f"There is no {what} {key}.", _LISTED[what])


def refusal(error: SQLAlchemyError) -> UnstickError:
    """Return the error for something that the database does not take, whoever asks."""
    match error:
        case IntegrityError() if _is_duplicate(error):
            return Conflict(
                f"It is there already ({_words(error)}).",
                "`unstick audit list` (GET /api/v1/audit) tells what was recorded.",
            )
        case StatementError(orig=InvalidInput() as refused):
            return refused
        case DataError():
            return InvalidInput(f"It cannot be stored ({_words(error)}).")
        case _:
            return BrokenRule(f"It cannot be stored ({_words(error)}).")


def _is_duplicate(error: IntegrityError) -> bool:
    return _code(error) in ("23505", "SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_PRIMARYKEY")


def _code(error: DBAPIError) -> str:
    """Return PostgreSQL's five characters or SQLite's name of the error, or nothing."""
    origin = error.orig
    code = getattr(origin, "sqlstate", None) or getattr(origin, "sqlite_errorname", None)
    return str(code or "")


def _words(error: SQLAlchemyError) -> str:
    """Return the database's own first line, without the statement and its values."""
    origin = error.orig if isinstance(error, StatementError) else None
    lines = str(origin if origin is not None else error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
