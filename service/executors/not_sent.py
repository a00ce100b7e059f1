"""What stops a script before the first byte of it left us: proof that nothing of it ran."""

from service.domain.errors import UnstickError
from service.domain.script import NotStarted, Report, ReportState


class NotSent(UnstickError):
    """The script did not reach the machine."""

    code = "not_sent"

    def __init__(self, cause: NotStarted, reason: str, way_out: str = "", *, again: bool = False) -> None:
        """Keep the cause; `again` when a short wait may mend it, such as a full sshd."""
        super().__init__(reason, way_out)
        self.cause = cause
        self.again = again

    def report(self) -> Report:
        """Return what an executor answers for it."""
        return Report(ReportState.NOT_STARTED, not_started=self.cause, reason=str(self))
