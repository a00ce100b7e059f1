"""serve: start, stop, kill, and what is refused at start."""

import signal
from pathlib import Path

import pytest

from lab.ports import free_port
from lab.postgres import Postgres
from service.client import connect
from service.domain.errors import Unauthenticated
from service.domain.person import Role
from tests.cli.installation import PATIENCE, Installation, Serving, Someone, eventually, said_until

VERA = ("--name", "vera", "--role", "viewer")
WORDS = ("--wait=end", "--json")
pytest_plugins = ["lab.fixtures"]


@pytest.fixture
def place(tmp_path: Path) -> Installation:
    return Installation(tmp_path / "place")


def acts_of(flag: Path) -> int:
    log = Path(f"{flag}.acted")
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_a_second_service_on_the_same_database_is_refused(service: Serving) -> None:
    done = service.place("serve")

    assert done.returncode == 2
    assert f"unstick serve (pid {service.process.pid})" in done.stderr
    assert "Traceback" not in done.stderr


def test_postgresql_is_refused_with_the_command_until_it_is_migrated(
    place: Installation, postgres_server: Postgres
) -> None:
    place.environment["UNSTICK_DATABASE_URL"] = postgres_server.create()

    refused = place("serve")
    migrated = place("migrate")
    with place.serving() as serving, connect(serving.url, place("token", "create", *VERA).stdout.strip()) as client:
        listed = client.get("/runs")

    assert refused.returncode == 2
    assert "unstick migrate" in refused.stderr
    assert migrated.returncode == 0
    assert listed == {"items": [], "next_cursor": None}


def test_sigterm_ends_the_service_while_a_script_runs_and_the_next_start_takes_it_over(
    place: Installation, tmp_path: Path
) -> None:
    ann = place.token("ann", Role.OPERATOR)
    flag = tmp_path / "go"
    place.environment["UNSTICK_PORT"] = str(free_port())
    with place.serving() as first:
        waiting = Someone(place, first.url, ann).start(
            "run", "free", "--node", "n00", "--param", f"wait={flag}", *WORDS
        )
        eventually(lambda: acts_of(flag) == 1)
        first.process.send_signal(signal.SIGTERM)
        code = first.process.wait(PATIENCE)
    flag.touch()

    with waiting, place.serving():
        waited = waiting.wait(PATIENCE)

    assert (code, waited, acts_of(flag)) == (0, 0, 1)


def test_wait_survives_kill_9_and_a_restart_and_no_script_runs_twice(place: Installation, tmp_path: Path) -> None:
    ann = place.token("ann", Role.OPERATOR)
    flag = tmp_path / "go"
    place.environment["UNSTICK_PORT"] = str(free_port())
    with place.serving() as first:
        waiting = Someone(place, first.url, ann).start(
            "run", "free", "--node", "n00", "--param", f"wait={flag}", *WORDS
        )
        eventually(lambda: acts_of(flag) == 1)
        first.process.kill()
        first.process.wait(PATIENCE)
    flag.touch()
    told = said_until(waiting, "The service does not answer; waiting for it.")

    with waiting, place.serving():
        waited = waiting.wait(PATIENCE)

    assert (waited, acts_of(flag), told.count("does not answer")) == (0, 1, 1)
    assert place("audit", "verify").returncode == 0


def test_dev_prints_a_token_that_ends_with_the_service_and_is_no_second_person(place: Installation) -> None:
    with place.serving("--dev") as serving:
        assert serving.process.stdout is not None
        line = serving.process.stdout.readline()
        token = line.strip().partition("UNSTICK_TOKEN=")[2]
        me = Someone(place, serving.url, token)
        run_id = me.request("second", "n00")
        approved = me("approve", run_id, "--yes")
        serving.process.send_signal(signal.SIGTERM)
        serving.process.wait(PATIENCE)
    with place.serving() as again, connect(again.url, token) as client, pytest.raises(Unauthenticated):
        client.get("/runs")

    assert line.startswith(f"export UNSTICK_URL={serving.url} UNSTICK_TOKEN=unstick_")
    assert approved.returncode == 2
    assert "may not answer its gate" in approved.stderr
    assert token not in (place.folder / "serve.log").read_text()


def test_s02_dev_is_refused_where_others_could_reach_it(place: Installation) -> None:
    done = place("serve", "--dev", env={"UNSTICK_HOST": "0.0.0.0"})

    assert done.returncode == 2
    assert "--dev serves on this machine alone" in done.stderr
    assert not place.database.exists()


def test_an_address_that_is_taken_is_told(service: Serving, place: Installation) -> None:
    done = place("serve", env={"UNSTICK_PORT": service.port})

    assert done.returncode == 2
    assert f"127.0.0.1:{service.port}" in done.stderr
    assert "UNSTICK_PORT" in done.stderr


@pytest.mark.parametrize(
    ("inventory", "words"),
    [("nodes: {a: {exekutor: local}}\n", "exekutor"), (None, "There is no inventory")],
)
def test_a_wrong_inventory_is_told_at_start(place: Installation, inventory: str | None, words: str) -> None:
    file = place.folder / "config" / "inventory.yaml"
    file.unlink() if inventory is None else file.write_text(inventory)

    done = place("serve")

    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
