"""Tells people by apprise: Slack, mail, Teams, pagers and a hundred more, each named by one address.

The address is a secret, and stands in a file of its own. Only what it names is spoken to: no file, no program, no
configuration from elsewhere, no redirect.
"""

import logging
import re
from datetime import datetime
from typing import Final
from urllib.parse import urlsplit

from apprise import Apprise, AppriseAsset, NotifyFormat, NotifyType
from apprise.common import OverflowMode, PersistentStoreMode
from apprise.plugins import NotifyBase

from service.app.notice_ports import Outgoing
from service.app.secret_line import read_line
from service.app.web_addresses import LOOPBACK
from service.domain.errors import ConfigInvalid, NotTold
from service.domain.notice import NoticeKind, Receiver
from service.notify.bounded_http import bounded

#: Each wait for the service takes at most so long (seconds).
PATIENCE: Final = 10.0
_WAY_OUT: Final = (
    "Look at the list of addresses at https://appriseit.com/services/, and at `unstick notices test NAME`."
)
#: How apprise logs the status of an answer over HTTP, and smtplib's own words of one over SMTP. Nothing else is taken
#: from there.
_STATUS: Final = re.compile(r"\berror=([0-9]{3})\b|^(?:Socket Exception|SMTP recipient)[^(]*\(([45][0-9]{2}), b['\"]")
_ASSET: Final = AppriseAsset(
    app_id="unstick",
    app_desc="unstick",
    app_url="",
    # No picture from a foreign host.
    image_url_mask="",
    image_url_logo="",
    async_mode=False,
    secure_logging=True,
    http_redirects=False,
    interpret_escapes=False,
    interpret_emojis=False,
    pgp_autogen=False,
    pem_autogen=False,
    allow_templates=False,
    storage_mode=PersistentStoreMode.MEMORY,
    # It would wait in threads that keep the program from ending; the engine looks at the clock.
    service_timeout=0,
    plugin_paths=[],
)
_COLOURS: Final = {NoticeKind.GATE: NotifyType.WARNING, NoticeKind.ENDED: NotifyType.INFO}


def _tells_a_status(record: logging.LogRecord) -> bool:
    """Whether a line of apprise's log may be looked at: below a warning that is only what a mail server answered."""
    return record.levelno >= logging.WARNING or str(record.msg).startswith("Socket Exception")


# What it logs may hold the address; what went wrong is told by its status alone.
logging.getLogger("apprise").propagate = False
logging.getLogger("apprise").addHandler(logging.NullHandler())
logging.getLogger("apprise").setLevel(logging.DEBUG)
logging.getLogger("apprise").addFilter(_tells_a_status)


class ChatSender:
    """Sends plain text."""

    def __init__(self, *, patience: float = PATIENCE) -> None:
        """Wait at most so many seconds for each packet."""
        self._patience = patience

    def check(self, receiver: Receiver) -> None:
        """Return when the address can be used; ConfigInvalid."""
        self._plugin(receiver)

    def tell(self, receiver: Receiver, outgoing: Outgoing, *, now: datetime) -> None:
        """Return when the service has taken the message; NotTold says why not."""
        try:
            plugin = self._plugin(receiver)
        except ConfigInvalid as error:
            raise NotTold(error.reason, error.way_out) from error
        message = outgoing.message
        room = max(200, plugin.body_maxlen - len(message.title) - 20)
        text = message.text if len(message.text) <= room else message.text[: room - 1] + "…"
        apprise = Apprise(asset=_ASSET)
        apprise.add(plugin)
        heard: list[str] = []
        with bounded(self._patience):
            taken = apprise.notify(
                body=text,
                title=message.title,
                notify_type=_COLOURS.get(message.kind, NotifyType.FAILURE),
                body_format=_format_of(plugin),
                log_callback=lambda entry, _service: heard.extend(map("".join, _STATUS.findall(entry.message))),
                log_level=logging.DEBUG,
            )
        if not taken:
            status = f": it answered {heard[-1]}" if heard else ", or cannot be reached"
            raise NotTold(f"The chat service has not taken it{status}.")

    def _plugin(self, receiver: Receiver) -> NotifyBase:
        """Return what speaks to a service; ConfigInvalid never shows the address."""
        file = receiver.url_file
        url = read_line(file)
        plugin = Apprise.instantiate(url, asset=_ASSET, suppress_exceptions=True)
        if plugin is None:
            raise ConfigInvalid(f"What is in {file} is no address that apprise knows.", _WAY_OUT)
        schema = url.partition(":")[0].lower()
        if schema not in _words(plugin.secure_protocol):
            here = urlsplit(url).hostname in LOOPBACK
            if not here or not plugin.secure_protocol:
                safe = " or ".join(f"{word}://" for word in _words(plugin.secure_protocol))
                way_out = f"Write {safe}." if safe else "Choose a service that is reached by TLS."
                raise ConfigInvalid(f"The address in {file} is not one that goes by TLS.", way_out)
        if not plugin.verify_certificate:
            raise ConfigInvalid(f"The address in {file} has verify=no.", "Leave it out: anybody could answer.")
        plugin.redirects = False
        plugin.socket_connect_timeout = plugin.socket_read_timeout = self._patience
        plugin.overflow_mode = OverflowMode.TRUNCATE
        if NotifyFormat.TEXT in _words(plugin.notify_format):
            plugin.notify_format = NotifyFormat.TEXT
        return plugin


def _format_of(plugin: NotifyBase) -> NotifyFormat:
    """Return as what the text is handed over.

    Where only Markdown is known, apprise would write a backslash before each sign, in the link too. There are no links
    and mentions of others in the text, so that it may be taken as Markdown; at worst a word of it is in bold.
    """
    known = _words(plugin.notify_format)
    return NotifyFormat.MARKDOWN if known == (NotifyFormat.MARKDOWN.value,) else NotifyFormat.TEXT


def _words(some: object) -> tuple[str, ...]:
    """Return one word, several, or none, as apprise keeps them, as several."""
    match some:
        case None:
            return ()
        case str():
            return (some,)
        case tuple() | list() | set() | frozenset():
            return tuple(str(one.value) if isinstance(one, NotifyFormat) else str(one) for one in some)
        case _:
            return ()
