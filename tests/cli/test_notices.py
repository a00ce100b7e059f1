"""A running service tells people what happens, and goes on where it was; a receiver is tried from files alone."""

import base64
import json
from pathlib import Path

import pytest
from standardwebhooks.webhooks import Webhook

from service.client import Client
from service.domain.person import Role
from tests.cli.installation import Installation, Someone, eventually
from tests.notify.receiver import Taken, listening

SECRET = f"whsec_{base64.b64encode(b'k' * 32).decode()}"


@pytest.fixture
def place(tmp_path: Path) -> Installation:
    return Installation(tmp_path / "place")


def write(place: Installation, taken: Taken) -> None:
    """Name a chat that listens, and a program at the same place."""
    config = place.folder / "config"
    for name, text in (("desk", SECRET), ("oncall", f"json://127.0.0.1:{taken.port}/s3cr3t")):
        (config / name).write_text(f"{text}\n")
        (config / name).chmod(0o600)
    (config / "notify.yaml").write_text(
        "base_url: https://unstick.example.net\n"
        "receivers:\n"
        "  oncall: {kind: chat, url_file: oncall}\n"
        f"  desk: {{kind: webhook, url: 'http://127.0.0.1:{taken.port}/in', secret_files: [desk]}}\n"
        "notices:\n"
        "  - {to: [desk]}\n"
    )


def told(person: Someone) -> list[tuple[str, str]]:
    with Client(person.url, person.token) as client:
        return [(one["receiver"], one["state"]) for one in client.get("/notices")["items"]]


def titles(taken: Taken) -> list[str]:
    return [json.loads(body)["data"]["message"]["title"] for body in taken.bodies]


def test_a_service_tells_what_happens_and_after_a_stop_what_it_had_no_time_for(place: Installation) -> None:
    with listening(Taken(status=500)) as taken:
        write(place, taken)
        with place.serving() as serving:
            ann = Someone(place, serving.url, place.token("ann", Role.OPERATOR))
            run_id = ann.request("confirm", "n00")
            eventually(lambda: bool(taken.bodies))
        taken.status = 204
        seen = len(taken.bodies)
        with place.serving() as serving:
            ann = Someone(place, serving.url, ann.token)
            gate = ann.run(run_id)["gates"][0]["id"]
            eventually(lambda: len(taken.bodies) > seen)
            ann("approve", gate, "--yes")
            eventually(lambda: len(taken.bodies) > seen + 1)
            eventually(lambda: [state for _, state in told(ann)] == ["sent"] * 2)
            listed = ann("notices", "--receiver", "desk").stdout.splitlines()
        log = (place.folder / "serve.log").read_text()

    assert set(titles(taken)[: seen + 1]) == {"Gate open: confirm, step touch, on n00"}
    assert titles(taken)[seen + 1 :] == ["Ended succeeded: confirm on n00"]
    assert len({headers["webhook-id"] for _, headers in taken.requests}) == 2
    last = Webhook(SECRET).verify(taken.bodies[-1], taken.requests[-1][1])
    assert (last["type"], last["data"]["run_id"]) == ("notice.ended", run_id)
    assert [line.split()[1:4] for line in listed] == [
        ["RECEIVER", "STATE", "NOTICE"],
        ["desk", "sent", "Ended"],
        ["desk", "sent", "Gate"],
    ]
    assert '"notices.not_taken"' in log
    assert "It answered 500." in log
    assert SECRET not in log


def test_a_receiver_is_tried_from_files_and_doctor_looks_at_them(place: Installation) -> None:
    with listening(Taken(status=200)) as taken:
        write(place, taken)
        tried = place("notices", "test", "oncall")
        taken.status = 500
        refused = place("notices", "test", "desk")
    (place.folder / "config" / "oncall").write_text("json://chat.example.net/s3cr3t\n")
    (place.folder / "config" / "desk").chmod(0o644)
    wrong = place("doctor")

    assert (tried.returncode, tried.stdout) == (0, "oncall has taken it.\n")
    assert (refused.returncode, refused.stdout) == (1, "desk has not taken it. It answered 500.\n")
    assert "config/notify.yaml: 2 receivers of notices, 1 rules for them" in wrong.stdout
    assert "The receiver oncall of notices: The address in " in wrong.stdout
    assert "which is a secret." in wrong.stdout
    assert "s3cr3t" not in "".join(one.stdout + one.stderr for one in (tried, refused, wrong))


def test_the_schema_of_the_file_is_printed_for_editors(place: Installation) -> None:
    schema = json.loads(place("schema", "--notify").stdout)

    assert (schema["title"], sorted(schema["properties"])) == (
        "Notices of unstick",
        ["base_url", "notices", "receivers"],
    )
