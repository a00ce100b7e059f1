"""What runs on a node, and who else has it: a look that is taken before anybody is disrupted.

Each part of it was seen, could not be seen, or was not asked for; what could not be seen is never taken for nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from service.domain.shown_text import shown

#: So many of a kind are named; how many more there are is told.
MOST_NAMED = 50
#: So much of a word that a node or a cluster says is kept (characters).
MOST_OF_A_WORD = 200


class Kind(StrEnum):
    """What is looked for."""

    #: Who else has taken the node out of service, or is about to boot it.
    OWNERS = "owners"
    PODS = "pods"
    JOBS = "jobs"
    USERS = "users"
    GPU_PROCESSES = "gpu_processes"

    @property
    def words(self) -> str:
        """Return what people call it."""
        return _WORDS[self][1]

    def counted(self, number: int) -> str:
        """Return a number of it, such as `1 pod`."""
        return f"{number} {_WORDS[self][number != 1]}"


_WORDS = {
    Kind.OWNERS: ("foreign owner", "foreign owners"),
    Kind.PODS: ("pod", "pods"),
    Kind.JOBS: ("job", "jobs"),
    Kind.USERS: ("user", "users"),
    Kind.GPU_PROCESSES: ("GPU process", "GPU processes"),
}
#: What may be limited: occupants, and not who owns the node.
OCCUPANTS = tuple(kind for kind in Kind if kind is not Kind.OWNERS)


class Sight(StrEnum):
    """How far a part was seen."""

    SEEN = "seen"
    COULD_NOT_LOOK = "could_not_look"
    #: There is nobody who could be asked, such as a controller of that kind.
    NOT_ASKED = "not_asked"


@dataclass(frozen=True)
class Occupant:
    """One thing that was found."""

    #: `namespace/name` of a pod, the id of a job, the name of a user, the pid of a process; of an owner, a sentence.
    name: str
    #: What else is known of it, by word.
    facts: Mapping[str, str] = field(default_factory=dict)
    #: Why it does not count, such as `DaemonSet`; empty: it counts.
    apart: str = ""


@dataclass(frozen=True)
class Part:
    """What is known of one kind."""

    sight: Sight
    #: At most `MOST_NAMED` of them; those that count come first.
    found: tuple[Occupant, ...] = ()
    #: How many count, and how many do not, named or not.
    count: int = 0
    apart: int = 0
    #: Why it was not seen.
    why: str = ""

    @property
    def told(self) -> str:
        """Return it in a few words: a number, or why there is none."""
        match self.sight:
            case Sight.SEEN:
                return str(self.count)
            case Sight.COULD_NOT_LOOK:
                return f"could not look: {self.why}"
            case Sight.NOT_ASKED:
                return f"not asked: {self.why}"


def seen(found: Iterable[Occupant]) -> Part:
    """Return the part of which all was seen."""
    every = tuple(found)
    counting = [one for one in every if not one.apart]
    others = [one for one in every if one.apart]
    return Part(Sight.SEEN, tuple((counting + others)[:MOST_NAMED]), len(counting), len(others))


def could_not_look(why: str) -> Part:
    """Return the part of which nothing is known."""
    return Part(Sight.COULD_NOT_LOOK, why=word(why) or "nothing was said")


def not_asked(why: str) -> Part:
    """Return the part for which nobody could be asked."""
    return Part(Sight.NOT_ASKED, why=why)


def word(said: str) -> str:
    """Return what a machine said as one line that is safe to show, cut where it is too long."""
    line = shown(said.strip()).replace("\n", "\\n").replace("\t", " ")
    return line if len(line) <= MOST_OF_A_WORD else f"{line[: MOST_OF_A_WORD - 3]}..."


@dataclass(frozen=True)
class Survey:
    """All of it, as of one moment."""

    taken_at: datetime
    parts: Mapping[Kind, Part]
    #: Why a person is asked though a rule had waived the gate; empty: within every limit, or nothing was waived.
    over: tuple[str, ...] = ()

    def part(self, kind: Kind) -> Part:
        """Return the part of a kind."""
        return self.parts[kind]

    @property
    def words(self) -> str:
        """Return it as one line, such as `3 pods, 1 user; GPU processes: could not look: no answer`.

        Empty: there was nobody to ask.
        """
        numbers = [kind.counted(part.count) for kind, part in self.parts.items() if part.sight is Sight.SEEN]
        rest = [f"{kind.words}: {one.told}" for kind, one in self.parts.items() if one.sight is Sight.COULD_NOT_LOOK]
        return "; ".join(filter(None, (", ".join(numbers), *rest)))

    @property
    def unasked(self) -> str:
        """Return what nobody could be asked for, as one line, such as `pods (the node has no k8s_name)`."""
        rest = [(kind, one) for kind, one in self.parts.items() if one.sight is Sight.NOT_ASKED]
        return ", ".join(f"{kind.words} ({one.why})" for kind, one in rest)

    def counts(self) -> dict[str, int | str]:
        """Return the number of each kind, or why there is none: what the record says of it."""
        return {kind.value: part.count if part.sight is Sight.SEEN else part.told for kind, part in self.parts.items()}


@dataclass(frozen=True)
class OccupantLimits:
    """How much may run on a node that alerts disrupt without a person; None: any number."""

    pods: int | None = None
    jobs: int | None = None
    users: int | None = None
    gpu_processes: int | None = None
    #: Only for nodes in these pools; empty: for every node.
    only_for: tuple[str, ...] = ()

    def most(self, kind: Kind) -> int | None:
        """Return how many of a kind there may be; None: any number."""
        match kind:
            case Kind.PODS:
                return self.pods
            case Kind.JOBS:
                return self.jobs
            case Kind.USERS:
                return self.users
            case Kind.GPU_PROCESSES:
                return self.gpu_processes
            case Kind.OWNERS:
                return None

    def over(self, survey: Survey, pools: Iterable[str]) -> tuple[str, ...]:
        """Return why a person must decide, a sentence each; a limited kind that could not be seen is one of them."""
        if self.only_for and not set(self.only_for) & set(pools):
            return ()
        found = ((kind, self.most(kind), survey.part(kind)) for kind in OCCUPANTS)
        return tuple(_excess(kind, part, most=most) for kind, most, part in found if _exceeds(part, most))


#: Any number of anything may run there.
NO_LIMITS = OccupantLimits()


def _exceeds(part: Part, most: int | None) -> bool:
    if most is None or part.sight is Sight.NOT_ASKED:
        return False
    return part.sight is Sight.COULD_NOT_LOOK or part.count > most


def _excess(kind: Kind, part: Part, *, most: int | None) -> str:
    if part.sight is Sight.COULD_NOT_LOOK:
        return f"How many {kind.words} there are is not known ({part.why}), and {most} may be."
    return f"There {'is' if part.count == 1 else 'are'} {kind.counted(part.count)}, and {most} may be."


def judged(survey: Survey, limits: OccupantLimits, *, pools: Iterable[str]) -> Survey:
    """Return the survey with what is over the limits."""
    return replace(survey, over=limits.over(survey, pools))


def foreign_owner(owners: Part | None, node: str) -> str:
    """Return why alerts must leave a node to somebody else, or that this is not known; empty: they need not.

    None: nobody was asked.
    """
    if owners is None:
        return ""
    match owners.sight:
        case Sight.NOT_ASKED:
            return ""
        case Sight.COULD_NOT_LOOK:
            return f"Whether somebody else has {node} is not known: {owners.why}"
        case Sight.SEEN:
            told = "; ".join(one.name for one in owners.found if not one.apart)
            return f"Somebody else has {node}: {told}." if told else ""
