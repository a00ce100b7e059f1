"""Who is told what, as a file: notify.yaml, read strictly, read again when it changes. Without one nobody is told."""

import difflib
from collections.abc import Iterator
from pathlib import Path

from pydantic_core import ErrorDetails

from service.app.entry_faults import explain
from service.app.finding import Finding
from service.app.kept_file import KeptFile
from service.app.runbook_schema import Entry
from service.app.runbook_yaml import Bounds, Document, Where
from service.app.secret_line import learn_lines
from service.app.strict_file import named, read_strictly, refuse_faults
from service.domain.notice import NoticeRule, NotifyConfig, Receiver, ReceiverKind
from service.notify.notify_schema import RECEIVER_ENTRIES, ChatEntry, NoticeEntry, NotifyFile, ReceiverEntry

_OF_NOTIFY = Bounds(64 * 1024, 5_000, "Say less of it.", if_empty="Remove the file; then nobody is told anything.")


class FileNotify(KeptFile[NotifyConfig]):
    """What one file says. A file that became wrong silences nobody: the last good one stays."""

    def __init__(self, path: Path) -> None:
        """Take the path of notify.yaml; nothing is read yet."""
        super().__init__(path, load_notify, word="notify", if_absent=NotifyConfig())


def load_notify(path: Path) -> NotifyConfig:
    """Read a file; ConfigInvalid names every fault with its line, OSError when it cannot be read."""
    entry, document = read_strictly(path, NotifyFile, bounds=_OF_NOTIFY, begin="base_url", explain=_finding)
    refuse_faults(_together(entry, document, str(path)))
    receivers = {name: _receiver(name, one, path.parent) for name, one in entry.receivers.items()}
    for receiver in receivers.values():
        learn_lines(receiver.url_file, *receiver.secret_files)
    return NotifyConfig((entry.base_url or "").rstrip("/"), receivers, tuple(_rule(one) for one in entry.notices))


def _receiver(name: str, entry: ReceiverEntry, folder: Path) -> Receiver:
    def path(file: str) -> str:
        return str((folder / file).absolute())

    if isinstance(entry, ChatEntry):
        return Receiver(name, ReceiverKind.CHAT, url_file=path(entry.url_file), per_minute=entry.per_minute)
    return Receiver(
        name,
        ReceiverKind.WEBHOOK,
        url=entry.url or "",
        url_file=path(entry.url_file) if entry.url_file is not None else "",
        secret_files=tuple(path(file) for file in entry.secret_files),
        per_minute=entry.per_minute,
    )


def _rule(entry: NoticeEntry) -> NoticeRule:
    return NoticeRule(
        tuple(entry.to), frozenset(entry.on), frozenset(entry.runbooks), frozenset(entry.pools), entry.only_alerts
    )


def _together(entry: NotifyFile, document: Document, file: str) -> Iterator[Finding]:
    """Yield what is wrong with values that fit each by itself."""
    if entry.receivers and entry.base_url is None:
        way_out = "Add `base_url: https://HOST`: links of notices begin so."
        yield Finding(file, document.line(("receivers",)), "`base_url` is missing.", way_out)
    for name, receiver in entry.receivers.items():
        if not isinstance(receiver, ChatEntry) and (receiver.url is None) == (receiver.url_file is None):
            reason = f"`receivers.{name}` needs an address, and one alone."
            yield Finding(file, document.line(("receivers", name)), reason, "Write `url`, or `url_file`.")
    for number, notice in enumerate(entry.notices):
        for place, name in enumerate(notice.to):
            if name not in entry.receivers:
                close = difflib.get_close_matches(name, entry.receivers, n=1)
                way_out = f"Do you mean `{close[0]}`?" if close else "Write it under `receivers`."
                line = document.line(("notices", number, "to", place))
                yield Finding(file, line, f"There is no receiver `{name}`.", way_out)


def _finding(details: ErrorDetails, document: Document, file: str) -> Finding:
    parts = tuple(part for part in details["loc"] if part != "[key]")
    # Pydantic names the member of the union behind the receiver's name.
    where: Where = (*parts[:2], *parts[3:]) if parts[:1] == ("receivers",) and len(parts) > 3 else parts
    if details["type"] in ("union_tag_invalid", "union_tag_not_found"):
        reason = f"{named((*where, 'kind'))} is missing, or no kind of receiver."
        return Finding(file, document.line((*where, "kind")), reason, f"Write one of {', '.join(RECEIVER_ENTRIES)}.")
    reason, way_out = explain(details, where, entry=_entry_of(where, document))
    return Finding(file, document.line(where), f"{named(where)} {reason}", way_out)


def _entry_of(where: Where, document: Document) -> type[Entry]:
    """Return the model whose keys stand around a place."""
    if where[:1] == ("notices",) and len(where) > 2:
        return NoticeEntry
    if where[:1] == ("receivers",) and len(where) > 2:
        value = document.value
        receivers = value.get("receivers") if isinstance(value, dict) else None
        entry = receivers.get(where[1]) if isinstance(receivers, dict) else None
        kind = entry.get("kind") if isinstance(entry, dict) else None
        return RECEIVER_ENTRIES.get(str(kind), ChatEntry)
    return NotifyFile
