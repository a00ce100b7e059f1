"""notify.yaml is read strictly, and one that became wrong silences nobody."""

from pathlib import Path

import pytest

from service.domain.errors import ConfigInvalid
from service.domain.notice import NoticeKind, NoticeRule, NotifyConfig, Receiver, ReceiverKind
from service.notify.notify_file import FileNotify, load_notify

ROOT = Path(__file__).parents[2]
GOOD = """\
base_url: https://unstick.example.net/
receivers:
  oncall: {kind: chat, url_file: secrets/oncall}
  hook:
    kind: webhook
    url: https://hook.example.net/in
    secret_files: [secrets/new, secrets/old]
    per_minute: 60
notices:
  - {to: [oncall, hook], on: [gate, stuck], runbooks: [cure], pools: [h100], only_alerts: true}
  - {to: [hook]}
"""


def test_a_file_says_who_is_told_what(tmp_path: Path) -> None:
    file = tmp_path / "notify.yaml"
    file.write_text(GOOD)

    assert load_notify(file) == NotifyConfig(
        "https://unstick.example.net",
        {
            "oncall": Receiver("oncall", ReceiverKind.CHAT, url_file=f"{tmp_path}/secrets/oncall", per_minute=20),
            "hook": Receiver(
                "hook",
                ReceiverKind.WEBHOOK,
                "https://hook.example.net/in",
                secret_files=(f"{tmp_path}/secrets/new", f"{tmp_path}/secrets/old"),
                per_minute=60,
            ),
        },
        (
            NoticeRule(
                ("oncall", "hook"),
                frozenset({NoticeKind.GATE, NoticeKind.STUCK}),
                frozenset({"cure"}),
                frozenset({"h100"}),
                only_alerts=True,
            ),
            NoticeRule(("hook",)),
        ),
    )


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("base_url: https://unstick.example.net/\n", "", "1: `base_url` is missing. Add `base_url: https://HOST`"),
        ("base_url: https://unstick", "base_url: http://unstick", "1: `base_url` cannot be used. It begins with http"),
        ("kind: chat", "kind: chatt", "3: `receivers.oncall.kind` is missing, or no kind of receiver."),
        ("url_file: sec", "url_fil: sec", "3: `receivers.oncall.url_fil` is not a key that is known here."),
        ("url: https://hook.example.net/in", "per_second: 1", "6: `receivers.hook.per_second` is not a key"),
        ("    url: https://hook.example.net/in\n", "", "4: `receivers.hook` needs an address, and one alone."),
        (
            "on: [gate",
            "on: [gates",
            "10: `notices.0.on.0` is 'gates'. Write gate, ended, stuck, breaker, pause or override.",
        ),
        ("to: [oncall, hook]", "to: [oncal]", "10: There is no receiver `oncal`. Do you mean `oncall`?"),
        ("{to: [hook]}", "{to: []}", "11: `notices.1.to`"),
        ("per_minute: 60", "per_minute:", "8: `receivers.hook.per_minute` is empty."),
    ],
)
def test_a_fault_is_told_with_its_line_and_the_way_out(tmp_path: Path, old: str, new: str, told: str) -> None:
    file = tmp_path / "notify.yaml"
    file.write_text(GOOD.replace(old, new, 1))

    with pytest.raises(ConfigInvalid) as refusal:
        load_notify(file)

    assert f"notify.yaml:{told}" in str(refusal.value)


def test_an_address_with_a_password_is_refused_and_not_repeated(tmp_path: Path) -> None:
    file = tmp_path / "notify.yaml"
    file.write_text(GOOD.replace("https://hook.example.net", "https://me:s3cr3t@hook.example.net"))

    with pytest.raises(ConfigInvalid, match="holds a user or a password") as refusal:
        load_notify(file)

    assert "s3cr3t" not in str(refusal.value)


def test_without_a_file_nobody_is_told_and_one_that_became_wrong_silences_nobody(tmp_path: Path) -> None:
    file = tmp_path / "notify.yaml"
    source = FileNotify(file)
    nobody = source.current()
    file.write_text(GOOD)
    good = source.current()
    file.write_text(f"{GOOD}  - {{to: [who]}}\n")

    assert (nobody, len(good.rules), source.current()) == (NotifyConfig(), 2, good)
    assert source.problem is not None


def test_the_example_that_ships_is_good() -> None:
    assert len(load_notify(ROOT / "config" / "notify.example.yaml").receivers) == 3
