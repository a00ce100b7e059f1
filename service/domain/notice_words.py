"""Notices in words: pure text that no chat obeys, whatever a node, a monitor or a person has written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, assert_never

from service.domain.notice import Notice, NoticeKind
from service.domain.redaction import redact
from service.domain.runbook import ApprovalKind
from service.domain.shown_text import shown, shown_moment

#: So many characters of one line of others are told.
MOST_OF_A_LINE = 200
#: So many lines of a check, a script or a list of targets are told.
MOST_LINES = 6
#: So many nodes, gates or runs are named; the rest is counted.
MOST_NAMES = 5
# What chats read as more than signs: mentions, Slack's `<!here>` and `<url|words>`, the brackets of Markdown.
_SIGNS = str.maketrans({"@": "＠", "<": "‹", ">": "›", "[": "［", "]": "］", "`": "ˋ"})


@dataclass(frozen=True)
class Message:
    """What a receiver is sent."""

    title: str
    #: The link comes first, so that nothing cuts it off.
    text: str
    link: str
    kind: NoticeKind
    #: The notices in it, as JSON, for programs.
    notices: tuple[Mapping[str, Any], ...] = ()


def line(text: str, *, most: int = MOST_OF_A_LINE) -> str:
    """Return text of others as one line without secrets and control characters, cut when it is long."""
    # Cut before it is looked at, so that a megabyte costs nothing; a secret that is cut stays one by its beginning.
    flat = shown(" ".join(redact(text[: most * 8]).split()))
    return flat if len(flat) <= most else flat[: most - 1] + "…"


def lines(text: str) -> tuple[str, ...]:
    """Return the first lines of a text of others that are not blank, each as `line`; a last one counts the rest."""
    # Redacted as a whole first: a private key goes over several lines.
    some = [one for one in redact(text[: 64 * 1024]).splitlines() if one.strip()]
    more = len(some) - MOST_LINES
    told = tuple(line(one) for one in some[:MOST_LINES])
    return told if more <= 0 else (*told, f"… {more} more line{'' if more == 1 else 's'}")


def inert(text: str) -> str:
    """Return text in which no chat finds a mention, a link or markup."""
    return text.translate(_SIGNS).replace("://", ":／／")


def message(notice: Notice, *, base_url: str, now: datetime) -> Message:
    """Return the words of one notice as they are true at a moment."""
    facts = _Inert(notice.facts)
    match notice.kind:
        case NoticeKind.GATE:
            title, path, text = _gate(notice, facts, now=now)
        case NoticeKind.ENDED:
            title, path, text = _ended(notice, facts)
        case NoticeKind.STUCK:
            title, path, text = _stuck(notice, facts)
        case NoticeKind.BREAKER:
            title, path, text = _breaker(facts)
        case NoticeKind.PAUSE:
            title, path, text = _pause(facts)
        case NoticeKind.OVERRIDE:
            title, path, text = _override(notice, facts)
        case _:
            assert_never(notice.kind)
    link = f"{base_url}{path}"
    return Message(title, "\n".join((*_for_people(path, link), *text)), link, notice.kind, (as_json(notice),))


def bundle(notices: Sequence[Notice], *, base_url: str, now: datetime) -> Message:
    """Return the words of several notices of one kind: how many, the first few, and where all of them are."""
    kind = notices[0].kind
    each = [message(notice, base_url=base_url, now=now) for notice in notices]
    path = "/gates" if kind is NoticeKind.GATE else f"/api/v1/notices?kind={kind}"
    link = f"{base_url}{path}"
    match kind:
        case NoticeKind.GATE:
            title = f"{sum(len(notice.gates) for notice in notices)} gates are open"
        case NoticeKind.ENDED:
            title = f"{len(notices)} runs have ended"
        case NoticeKind.STUCK:
            title = f"{len(notices)} nodes are stuck"
        case NoticeKind.BREAKER | NoticeKind.PAUSE:
            title = f"{len(notices)} changes of what alerts may start"
        case NoticeKind.OVERRIDE:
            title = f"{len(notices)} gates were OVERRIDDEN"
        case _:
            assert_never(kind)
    named = [f"- {one.title}" for one in each[:MOST_NAMES]]
    more = [f"… and {len(each) - MOST_NAMES} more"] if len(each) > MOST_NAMES else []
    text = "\n".join((*_for_people(path, link), *named, *more, f"Type: {_LISTING[kind]}"))
    return Message(title, text, link, kind, tuple(part for one in each for part in one.notices))


def _for_people(path: str, link: str) -> list[str]:
    """Return a link where it opens a page: the API answers no browser, and a person types the command instead."""
    return [] if path.startswith("/api/") else [link]


def trial(receiver: str, *, base_url: str, now: datetime) -> Message:
    """Return the words by which a person tries a receiver."""
    text = f"{base_url}/\nunstick was asked to try the receiver {receiver} at {shown_moment(now)}. Nothing is wrong."
    return Message("A trial of notices", text, f"{base_url}/", NoticeKind.ENDED)


def as_json(notice: Notice) -> Mapping[str, Any]:
    """Return a notice as programs are told it."""
    return {
        "id": notice.id,
        "kind": notice.kind.value,
        "at": notice.at.isoformat(),
        "run_id": notice.run_id,
        "runbook": notice.runbook,
        "nodes": list(notice.nodes),
        "pools": list(notice.pools),
        "by_alert": notice.by_alert,
        **notice.facts,
    }


_LISTING: Mapping[NoticeKind, str] = {
    NoticeKind.GATE: "unstick runs --state waiting",
    NoticeKind.ENDED: "unstick runs",
    NoticeKind.STUCK: "unstick runs --state stuck",
    NoticeKind.BREAKER: "unstick breaker show",
    NoticeKind.PAUSE: "unstick breaker show",
    NoticeKind.OVERRIDE: "unstick audit list --action gate.overridden",
}


class _Inert:
    """The facts of a notice, each text as no chat obeys it."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self._facts = facts

    def word(self, name: str) -> str:
        return inert(str(self._facts.get(name) or ""))

    def words(self, name: str) -> list[str]:
        return [inert(str(one)) for one in self._facts.get(name) or ()]

    def number(self, name: str) -> int:
        return int(self._facts.get(name) or 0)

    def parts(self, name: str) -> list["_Inert"]:
        return [_Inert(one) for one in self._facts.get(name) or ()]

    def moment(self, name: str) -> datetime:
        return datetime.fromisoformat(self._facts[name])

    def has(self, name: str) -> bool:
        return bool(self._facts.get(name))


def _gate(notice: Notice, facts: _Inert, *, now: datetime) -> tuple[str, str, list[str]]:
    gates = facts.parts("gates")
    one = gates[0] if len(gates) == 1 else None
    path = f"/gates/{one.word('id')}" if one is not None else "/gates"
    what = "Gate open" if one is not None else f"{len(gates)} gates open"
    title = f"{what}: {inert(notice.runbook)}, step {facts.word('step')}, on {_names(notice.nodes)}"
    until = min((gate.moment("expires_at") for gate in gates), default=now)
    text = [
        f"Somebody must answer before it acts: {facts.word('title')}",
        *(f"Mind: {risk}" for risk in facts.words("risks")),
        f"Why: {facts.word('why')}",
        *(_of_one_gate(one) if one is not None else _of_gates(gates)),
        "It would run:",
        *(f"  | {each}" for each in facts.words("script")),
        f"Who may answer: {_who(facts)}",
        f"Until: {shown_moment(until)} ({_minutes_left(until, now)}); without an answer nothing is run",
        f"Or type: unstick approve {one.word('id') if one is not None else notice.run_id}",
    ]
    return title, path, text


def _of_one_gate(gate: _Inert) -> list[str]:
    saw = gate.words("saw")
    return [
        *(f"Asked though a rule had waived it: {reason}" for reason in gate.words("over")),
        *([f"On the node when it was opened: {gate.word('occupants')}"] if gate.has("occupants") else []),
        "The check saw:" if saw else "The check saw: it said nothing",
        *(f"  | {each}" for each in saw),
        f"It would act on {_count(gate.number('targets_in_all'), 'target')}:",
        *(f"  | {each}" for each in gate.words("targets")),
    ]


def _of_gates(gates: Sequence[_Inert]) -> list[str]:
    more = [f"  | … and {len(gates) - MOST_NAMES} more nodes"] if len(gates) > MOST_NAMES else []
    return ["It would act on:", *(f"  | {_in_short(gate)}" for gate in gates[:MOST_NAMES]), *more]


def _in_short(gate: _Inert) -> str:
    first = ", ".join(gate.words("targets")[:1])
    occupants = f" (on it: {gate.word('occupants')})" if gate.has("occupants") else ""
    return f"{gate.word('node')}: {_count(gate.number('targets_in_all'), 'target')}: {first}{occupants}"


def _who(facts: _Inert) -> str:
    match ApprovalKind(facts.word("approval")):
        case ApprovalKind.SECOND_PERSON:
            return f"an approver, and not who requested it ({', '.join(facts.words('requesters'))})"
        case ApprovalKind.CONFIRM | ApprovalKind.NONE:
            return "any operator or approver"


def _minutes_left(until: datetime, now: datetime) -> str:
    minutes = int((until - now).total_seconds() // 60)
    return f"{_count(minutes, 'minute')} left" if minutes > 0 else "less than a minute left"


def _ended(notice: Notice, facts: _Inert) -> tuple[str, str, list[str]]:
    verdicts = ", ".join(f"{_count(part.number('nodes'), 'node')} {part.word('what')}" for part in facts.parts("ends"))
    dry = "dry run of " if facts.has("dry_run") else ""
    state = facts.word("state")
    title = f"Ended {state}: {dry}{inert(notice.runbook)} on {_names(notice.nodes)}"
    text = [f"In all: {verdicts}", f"Why it ran: {facts.word('why')}"]
    for bad in facts.parts("look_at"):
        text.append(f"Look at {bad.word('node')}: {bad.word('what')}: {bad.word('reason')}")
    if facts.has("dry_run"):
        text.append(_would_change(facts))
    text.append(f"Type: unstick show {notice.run_id}")
    if state != "succeeded":
        text.append(f"Again, from the first look on: unstick retry {notice.run_id}")
    return title, f"/api/v1/runs/{notice.run_id}", text


def _would_change(facts: _Inert) -> str:
    places = [f"{one.word('node')} (step {one.word('step')})" for one in facts.parts("would_change")]
    if not places:
        return "It found nothing that it would change."
    more = facts.number("would_change_in_all") - len(places)
    return f"It would change {', '.join(places)}{f' and {more} more' if more > 0 else ''}; nothing was changed."


def _stuck(notice: Notice, facts: _Inert) -> tuple[str, str, list[str]]:
    node = facts.word("node")
    title = f"Stuck: {inert(notice.runbook)} on {node}"
    step = f", step {facts.word('step')}" if facts.has("step") else ""
    text = [
        f"Nobody knows what came of it{step}: {facts.word('reason')}",
        "Nothing more is sent to this node before somebody has looked at it.",
        f"Why it ran: {facts.word('why')}",
        f"What was said before: unstick show {notice.run_id} --output",
        f"Then type: unstick resolve {notice.run_id} {node} --as settle_again --reason '...'",
        "(or --as changed, failed, retry)",
    ]
    return title, f"/api/v1/runs/{notice.run_id}", text


def _breaker(facts: _Inert) -> tuple[str, str, list[str]]:
    name = facts.word("breaker")
    if facts.has("by"):
        text = [
            f"Reason: {facts.word('reason')}",
            f"It had latched because: {facts.word('it_was')}",
            f"Alerts that are judged again: {facts.number('alerts')}",
        ]
        return f"The breaker {name} was reset by {facts.word('by')}", "/gates", text
    text = [
        f"Reason: {facts.word('reason')}",
        f"No alert starts anything until somebody resets it; held so far: {facts.word('held')}",
        "Look first at what the rules have done: unstick alerts --verdict ran",
        f"Then type: unstick breaker reset {name} --reason '...'",
    ]
    return f"The breaker {name} has latched", "/gates", text


def _pause(facts: _Inert) -> tuple[str, str, list[str]]:
    by, reason = facts.word("by"), f"Reason: {facts.word('reason')}"
    if facts.has("resumed"):
        return f"Alerts were resumed by {by}", "/gates", [reason, f"Judged again: {facts.number('alerts')}"]
    text = [
        reason,
        "Alerts are recorded and held; runs that were started go on.",
        "Type: unstick resume --reason '...'",
    ]
    return f"Alerts were paused by {by}", "/gates", text


def _override(notice: Notice, facts: _Inert) -> tuple[str, str, list[str]]:
    where = f"{inert(notice.runbook)}, step {facts.word('step')}, on {facts.word('node')}"
    title = f"GATE OVERRIDDEN by {facts.word('by')}: {where}"
    acts = "It acted by hand" if facts.has("by_hand") else "It acts"
    text = [
        f"Reason: {facts.word('reason')}",
        f"{acts} without the approval {_who_was_asked(facts)}, on {_count(facts.number('targets_in_all'), 'target')}:",
        *(f"  | {each}" for each in facts.words("targets")),
        f"Why it runs: {facts.word('why')}",
        f"Look at it: unstick show {notice.run_id}",
    ]
    # A run that was played by hand has most often ended before anybody is told: nothing of it is left to withdraw.
    if not facts.has("ended"):
        text.append(f"To withdraw what is left of it: unstick cancel {notice.run_id}")
    return title, f"/gates/{facts.word('gate')}", text


def _who_was_asked(facts: _Inert) -> str:
    match ApprovalKind(facts.word("approval")):
        case ApprovalKind.SECOND_PERSON:
            return "of a second person"
        case ApprovalKind.CONFIRM | ApprovalKind.NONE:
            return "of somebody who has looked"


def _names(nodes: Sequence[str]) -> str:
    # Three in a title; all of them stand in the text or in the run.
    named = ", ".join(inert(node) for node in nodes[:3])
    return f"{named} and {len(nodes) - 3} more" if len(nodes) > 3 else named


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
