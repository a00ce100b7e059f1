"""What a pair of Status and StatusDetails says of one invocation: one table. Pure.

A command as a whole is never judged: with four invocations undeliverable and one Success it is a Success. Nor is a
response code: it is that of our envelope's carrier, and -1 while there is none.

Source of the words: SSM user guide, "Understanding command statuses"; API reference, CommandInvocation. The guide has
them with blanks, the service without, so that blanks and case count for nothing here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from service.domain.script import NotStarted


class Standing(StrEnum):
    """How far an invocation is."""

    #: The agent of the node does not have it yet, as far as SSM knows.
    WAITS = "waits"
    #: It may have begun: the same word says that SSM is trying to deliver it.
    MAY_RUN = "may_run"
    #: It is over; only what the envelope wrote tells what came of it.
    OVER = "over"
    #: It is over and never reached the node.
    NEVER_ARRIVED = "never_arrived"
    #: A word that is not in the table: whether it is over is not known.
    STRANGE = "strange"


@dataclass(frozen=True)
class Meaning:
    """What one pair says; `cause` and `words` are there for what never arrived, `words` also for what may have run."""

    standing: Standing
    words: str = ""
    cause: NotStarted | None = None


_WAITS = Meaning(Standing.WAITS)
_MAY_RUN = Meaning(Standing.MAY_RUN)


def _never_arrived(words: str, cause: NotStarted = NotStarted.UNREACHABLE) -> Meaning:
    return Meaning(Standing.NEVER_ARRIVED, words, cause)


#: Details, the statuses beside which they stand (the guide names details alone, so there may be several), the meaning.
_ROWS: tuple[tuple[str, str, Meaning], ...] = (
    ("pending", "pending", _WAITS),
    ("delayed", "delayed pending inprogress", _WAITS),
    ("inprogress", "inprogress", _MAY_RUN),
    ("cancelling", "cancelling", _MAY_RUN),
    ("success", "success", Meaning(Standing.OVER, "the agent says Success, but nothing of ours came back")),
    ("failed", "failed", Meaning(Standing.OVER, "the agent says Failed, and nothing of ours came back")),
    ("executiontimedout", "timedout", Meaning(Standing.OVER, "the agent ended the command at its timeout")),
    ("cancelled", "cancelled", Meaning(Standing.OVER, "the command was cancelled")),
    ("deliverytimedout", "timedout", _never_arrived("SSM could not deliver it in time: the agent did not take it")),
    (
        "undeliverable",
        "failed cancelled timedout",
        _never_arrived("SSM cannot deliver it: the instance is gone, or its agent does not respond"),
    ),
    (
        "terminated",
        "cancelled failed",
        _never_arrived("SSM gave it up because the command had failed elsewhere", NotStarted.REFUSED),
    ),
    (
        "invalidplatform",
        "failed cancelled",
        _never_arrived("the document is not for the platform of this instance", NotStarted.REFUSED),
    ),
    (
        "accessdenied",
        "failed cancelled",
        _never_arrived("the identity that unstick uses may not send to this instance", NotStarted.REFUSED),
    ),
    ("rateexceeded", "failed cancelled", _never_arrived("the account has too many invocations pending")),
    ("limitexceeded", "failed cancelled", _never_arrived("the account has too many invocations pending")),
)
_MEANINGS: Mapping[tuple[str, str], Meaning] = {
    (status, details): meaning for details, statuses, meaning in _ROWS for status in statuses.split()
}
_ENDS = ("success", "failed", "timedout", "cancelled")
#: What SSM also says where a script has begun and its node could not tell the end.
_NO_PROOF_ALONE = ("deliverytimedout", "terminated")


def judge(status: str, details: str, *, never_begun: bool, seen_begun: bool = False) -> Meaning:
    """Return what a pair says of an invocation.

    `never_begun` tells whether it is proven that the agent cannot have begun it, `seen_begun` whether SSM once said
    that it may have: then no later word proves that it never arrived. An unknown word never says success, nor that
    nothing ran.
    """
    meaning = _MEANINGS.get((_plain(status), _plain(details)))
    if meaning is None:
        standing = Standing.OVER if _plain(status) in _ENDS else Standing.STRANGE
        return Meaning(standing, f"SSM says {status}/{details}, which unstick does not know")
    unproven = seen_begun or (_plain(details) in _NO_PROOF_ALONE and not never_begun)
    if meaning.standing is Standing.NEVER_ARRIVED and unproven:
        return Meaning(Standing.OVER, f"SSM says {details}, and the script may have begun before")
    return meaning


def _plain(word: str) -> str:
    return "".join(word.split()).lower()
