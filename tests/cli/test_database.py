"""token, audit verify, migrate and doctor work on the database, also beside a running service."""

import json
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from service.domain.person import Role
from tests.cli.installation import Installation, Serving, Someone, eventually


@pytest.fixture
def place(tmp_path: Path) -> Installation:
    return Installation(tmp_path / "place")


def test_s13_a_token_is_printed_alone_and_is_nowhere_else(place: Installation) -> None:
    done = place("token", "create", "--name", "ann", "--role", "operator")

    token = done.stdout.strip()
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{token}\n"
    assert token.startswith("unstick_")
    assert token.encode() not in place.database.read_bytes()
    assert stat.S_IMODE(place.database.stat().st_mode) == 0o600


def test_tokens_are_listed_with_person_roles_and_end(place: Installation) -> None:
    place.token("ci", Role.OPERATOR, Role.VIEWER, person="ann")
    place("token", "create", "--name", "bob", "--role", "approver", "--expires", "90d")

    listed = json.loads(place("token", "list", "--json").stdout)

    assert [(one["name"], one["person"], one["roles"], one["state"]) for one in listed] == [
        ("bob", "bob", ["approver"], "valid"),
        ("ci", "ann", ["operator", "viewer"], "valid"),
    ]
    assert [one["expires_at"] is None for one in listed] == [False, False]


def test_a_token_says_how_far_it_goes_and_when_it_ends(place: Installation) -> None:
    words = ("--role", "operator", "--runbook", "node-*", "--pool", "h100", "--pool", "lab", "--expires", "12h")
    made = place("token", "create", "--name", "ci", *words)
    monitor = place("token", "create", "--name", "prom", "--role", "source", "--expires", "never")

    listed = json.loads(place("token", "list", "--json").stdout)
    table = place("token", "list").stdout

    assert [(one["name"], one["runbooks"], one["pools"]) for one in listed] == [
        ("ci", ["node-*"], ["h100", "lab"]),
        ("prom", [], []),
    ]
    assert "runbooks node-*, pools h100 lab" in table
    assert "It ends at " in made.stderr
    assert "It has no end" in monitor.stderr


def test_a_revoked_token_is_refused_at_once(service: Serving) -> None:
    someone = Someone(service.place, service.url, service.place.token("gone", Role.VIEWER))
    before = someone("runs")

    revoked = service.place("token", "revoke", "gone")

    after = someone("runs")
    assert (before.returncode, revoked.returncode, after.returncode) == (0, 0, 2)
    assert "UNSTICK_TOKEN is not valid" in after.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("token", "create", "--name", "a", "--role", "king"),
        ("token", "create", "--name", "a", "--role", "viewer", "--expires", "soon"),
        ("token", "create", "--name", "a", "--role", "viewer", "--expires", "2020-01-31T18:00:00+00:00"),
        ("token", "create", "--name", "a", "--role", "viewer", "--expires", "0d"),
        ("token", "create", "--name", "a", "--role", "viewer", "--expires", "366d"),
        ("token", "create", "--name", "a", "--role", "viewer", "--expires", "never"),
        ("token", "list"),
        ("audit", "verify"),
    ],
)
def test_what_is_refused_exits_2_and_makes_no_database(place: Installation, arguments: tuple[str, ...]) -> None:
    done = place(*arguments)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr
    assert "Traceback" not in done.stderr
    assert not place.database.exists()


def test_a_name_is_taken_once(place: Installation) -> None:
    place.token("ann", Role.VIEWER)

    again = place("token", "create", "--name", "ann", "--role", Role.VIEWER)

    assert (again.returncode, again.stdout) == (2, "")


def test_who_lost_a_token_is_told_how_to_get_another_as_the_same_person(place: Installation) -> None:
    place.token("ann", Role.OPERATOR, person="ann@example.org")
    place.token("ann-2", Role.OPERATOR, person="ann@example.org")

    taken = place("token", "create", "--name", "ann", "--role", "operator", "--role", "approver")
    command = taken.stderr.splitlines()[1].partition("Another one of that person: unstick ")[2]
    typed = place(*command.split())

    told = "There is a token ann already, of the person ann@example.org; a name is taken once."
    lost = "If it is lost, end it: unstick token revoke ann. Another one of that person: "
    another = "unstick token create --name ann-3 --person ann@example.org --role approver --role operator"
    assert taken.stderr.splitlines() == [told, lost + another]
    assert typed.returncode == 0, typed.stderr
    assert typed.stderr.startswith("It is of the person ann@example.org, who has ann, ann-2 too.\n")


def test_a_token_that_makes_a_new_person_says_so_and_how_to_mend_it(place: Installation) -> None:
    place.token("ann", Role.OPERATOR)

    unawares = place("token", "create", "--name", "ann-laptop", "--role", "operator")
    meant = place("token", "create", "--name", "bobs", "--role", "operator", "--person", "bob")

    assert unawares.stderr.splitlines()[:3] == [
        "It is of the person ann-laptop, who is new here, beside ann.",
        "If it was meant for one of them, revoke it and make it with --person:",
        "  unstick token revoke ann-laptop",
    ]
    assert meant.stderr.splitlines()[:1] == ["It is of the person bob, who is new here, beside ann, ann-laptop."]
    assert "revoke" not in meant.stderr


def test_a_whole_chain_exits_0_with_its_head(place: Installation) -> None:
    place.token("ann", Role.VIEWER)

    told = json.loads(place("audit", "verify", "--json").stdout)
    done = place("audit", "verify")

    assert (told["whole"], told["events"], told["first_fault"]) == (True, 1, None)
    assert told["database"] == str(place.database)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        f"Database: {place.database}",
        f"The chain is whole: 1 events, head {told['head']}",
        "Whether newer events were cut off, or all were written anew, only a head that was kept elsewhere shows.",
        "Keep this line elsewhere, and type it the next time:",
        f"  unstick audit verify --expect 1:{told['head']}",
        "The tables say the same: 0 runs, 0 of their nodes, 0 gates.",
    ]


def test_a_row_that_was_changed_beside_the_service_exits_1_and_is_named(service: Serving, ann: Someone) -> None:
    place = Installation(service.place.folder / "copy")
    run_id = ann.request("free", "n59")
    eventually(lambda: ann.run(run_id)["state"] == "succeeded")
    with closing(sqlite3.connect(service.place.database)) as source, closing(sqlite3.connect(place.database)) as copy:
        source.backup(copy)
    before = place("audit", "verify")
    with closing(sqlite3.connect(place.database)) as copy:
        copy.execute("UPDATE node_runs SET verdict = 'well' WHERE run_id = ?", (run_id,))
        copy.commit()

    told = json.loads(place("audit", "verify", "--json").stdout)
    done = place("audit", "verify")

    (fault,) = told["tables"]["first_faults"]
    assert (before.returncode, done.returncode, told["whole"], told["tables"]["faults"]) == (0, 1, True, 1)
    assert (fault["run_id"], fault["row"].partition("/")[0]) == (run_id, "node_run")
    assert f"  {fault['row']} of run {run_id}: its verdict is well, and seq " in done.stdout
    assert "says cured." in done.stdout


def test_a_head_that_was_kept_shows_that_events_were_cut_off(place: Installation) -> None:
    for name in ("ann", "bob"):
        place.token(name, Role.VIEWER)
    head = json.loads(place("audit", "verify", "--json").stdout)["head"]
    place.token("cid", Role.VIEWER)
    grown = place("audit", "verify", "--expect", f"2:{head}")
    other = place("audit", "verify", "--expect", f"2:{'0' * 64}")
    change_events(place, "DELETE FROM audit_events WHERE seq > 1")

    cut = place("audit", "verify", "--expect", f"2:{head}")
    unclear = place("audit", "verify", "--expect", head)

    assert [one.returncode for one in (grown, other, cut, unclear)] == [0, 1, 1, 2]
    assert (
        "The chain is broken at seq 2: its hash is not the one that was kept: events were written anew." in other.stdout
    )
    assert (
        "The chain is broken at seq 2: the chain ends before it, and it went on to seq 2: events were cut off."
        in cut.stdout
    )
    assert "Give SEQ:HASH as an earlier `audit verify` printed it." in unclear.stderr


def test_a_token_says_in_which_database_it_is_and_when_that_is_a_new_one(place: Installation) -> None:
    first = place("token", "create", "--name", "ann", "--role", "viewer")
    second = place("token", "create", "--name", "bob", "--role", "viewer")

    assert f"There was no database, so a new one was made: {place.database}\n" in first.stderr
    assert f"It is in the database {place.database}\n" in second.stderr


def test_a_changed_event_exits_1_and_is_named(place: Installation) -> None:
    for name in ("ann", "bob", "cid"):
        place.token(name, Role.VIEWER)
    change_events(place, "UPDATE audit_events SET person = 'nobody' WHERE seq = 2")

    done = place("audit", "verify")

    assert done.returncode == 1
    assert "\nThe chain is broken at seq 2: " in done.stdout


def change_events(place: Installation, statement: str) -> None:
    """Change the record as somebody would who has the file."""
    with sqlite3.connect(place.database) as database:
        for (trigger,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {trigger}")
        database.execute(statement)
    database.close()


def test_verify_works_beside_a_running_service(service: Serving) -> None:
    done = service.place("audit", "verify")

    assert done.returncode == 0, done.stderr


def test_migrate_makes_the_tables_and_again_changes_nothing(place: Installation) -> None:
    first = place("migrate")
    second = place("migrate")

    assert (first.returncode, second.returncode) == (0, 0), first.stderr
    assert "before: empty" in first.stdout
    assert "as before" in second.stdout


def test_migrate_is_refused_while_a_service_has_the_database(service: Serving) -> None:
    done = service.place("migrate")

    assert done.returncode == 2
    assert "unstick serve (pid" in done.stderr


def test_doctor_finds_nothing_wrong_with_what_is_right(place: Installation) -> None:
    place("migrate")

    done = place("doctor")

    assert done.returncode == 0, done.stdout
    assert "60 nodes" in done.stdout


def test_doctor_names_what_is_wrong_and_how_to_mend_it(place: Installation) -> None:
    place("migrate")
    place.database.chmod(0o644)
    (place.folder / "config" / "inventory.yaml").write_text("nodes: {a: {exekutor: local}}\n")
    (place.folder / "runbooks" / "look.yaml").chmod(0o666)

    (place.folder / "config" / "notify.yaml").write_text(
        "base_url: https://unstick.test\n"
        "receivers: {desk: {kind: webhook, url: 'https://desk.test/x', secret_files: [none]}}\n"
        "notices: [{to: [desk], runbooks: [lok]}]\n"
    )
    others = {"UNSTICK_PROT": "8000", "UNSTICK_LAB_CACHE": "/x", "UNSTICK_HOST": "0.0.0.0"}

    done = place("doctor", env=others)

    assert done.returncode == 1
    for words in ("UNSTICK_PROT", "exekutor", "chmod 0600", "chmod o-w"):
        assert words in done.stdout
    for words in (
        "speaks no TLS itself",
        "role admin",
        "the defaults bound",
        "names the runbook lok",
    ):
        assert words in done.stdout
    assert "UNSTICK_LAB_CACHE" not in done.stdout
