"""What is wrong at one line of a file, and how to mend it."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """Whether a file with this finding is still used."""

    #: The file is refused.
    ERROR = "error"
    #: The file is used, but probably does not do what its author means.
    WARNING = "warning"


@dataclass(frozen=True, order=True)
class Finding:
    """One fault of a file."""

    file: str
    #: Counted from 1.
    line: int
    #: One sentence: what is wrong.
    reason: str
    #: One sentence: how to mend it.
    way_out: str
    severity: Severity = Severity.ERROR

    @property
    def what(self) -> str:
        """Return place and reason, as in `runbooks/a.yaml:7: The key ...`."""
        mark = "warning: " if self.severity is Severity.WARNING else ""
        return f"{self.file}:{self.line}: {mark}{self.reason}"

    def __str__(self) -> str:
        """Return place, reason and way out on one line."""
        return f"{self.what} {self.way_out}".strip()
