"""Every error of the service, as one tree.

UnstickError
├── InvalidInput        422  text that cannot be understood (YAML, JSON, a parameter)
│   ├── RunbookInvalid  422  a runbook file with its findings
│   └── ConfigInvalid   422  inventory, rules or settings
├── Unauthenticated     401  nobody is known
├── Forbidden           403  somebody is known and may not
├── NotFound            404
├── Conflict            409  the state of things forbids it now
│   └── EpochLost       409  another owner has taken the node run meanwhile
├── Unavailable         503  the store cannot be written, so nothing may be done
├── SourceSilent        503  a source of nodes did not answer, or not with what can be read
├── ProviderSilent      503  who vouches for persons did not answer, so nobody is known by it
├── NotTold             502  a receiver has not taken a notice
└── BrokenRule          500  a rule of our own code was broken: a defect, never a refusal

Each names its reason, and `way_out` says what to do next.
"""

from typing import ClassVar


class UnstickError(Exception):
    """Something went wrong."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "error"

    def __init__(self, reason: str, way_out: str = "") -> None:
        """Keep the reason (one sentence) and the way out (one sentence, or empty)."""
        super().__init__(reason)
        self.reason = reason
        self.way_out = way_out

    def __str__(self) -> str:
        """Return the reason and the way out as a person would read them aloud."""
        return f"{self.reason} {self.way_out}".strip()


class InvalidInput(UnstickError):
    """The text that was given cannot be understood."""

    status = 422
    code = "invalid_input"


class RunbookInvalid(InvalidInput):
    """A runbook has findings and is not offered."""

    code = "runbook_invalid"


class ConfigInvalid(InvalidInput):
    """A file or variable of the configuration is wrong."""

    code = "config_invalid"


class Unauthenticated(UnstickError):
    """Who asks has not shown who it is."""

    status = 401
    code = "unauthenticated"


class Forbidden(UnstickError):
    """This person may not do that."""

    status = 403
    code = "forbidden"


class NotFound(UnstickError):
    """There is no such thing."""

    status = 404
    code = "not_found"


class Conflict(UnstickError):
    """The state of things does not allow it now."""

    status = 409
    code = "conflict"


class EpochLost(Conflict):
    """Another owner has taken this node run; what this one still knows is not written."""

    code = "epoch_lost"


class Unavailable(UnstickError):
    """The store cannot be written: no record, no action."""

    status = 503
    code = "unavailable"


class SourceSilent(UnstickError):
    """A source of nodes did not answer: its nodes are unknown, not absent."""

    status = 503
    code = "source_silent"


class ProviderSilent(UnstickError):
    """The provider of identities did not answer: nobody is vouched for."""

    status = 503
    code = "provider_silent"


class NotTold(UnstickError):
    """A receiver has not taken a notice."""

    status = 502
    code = "not_told"

    def __init__(self, reason: str, way_out: str = "", *, final: bool = False) -> None:
        """Keep why; `final`: the receiver wants no further try."""
        super().__init__(reason, way_out)
        self.final = final


class BrokenRule(UnstickError):
    """A rule of the program itself was broken."""

    code = "broken_rule"
