"""A PostgreSQL database that cannot hold every text is refused before anything is made in it."""

from pathlib import Path

import pytest

from lab.postgres import Postgres
from tests.cli.installation import Installation

pytest_plugins = ["lab.fixtures"]


@pytest.fixture
def place(tmp_path: Path) -> Installation:
    return Installation(tmp_path / "place")


def said(encoding: str, name: str) -> str:
    return (
        f"The database {name} has the encoding {encoding}; the record needs UTF8.\n"
        f"Make another and name it in UNSTICK_DATABASE_URL: createdb -E UTF8 -T template0 {name}_utf8\n"
    )


@pytest.mark.parametrize(
    ("command", "encoding"), [("migrate", "SQL_ASCII"), ("serve", "SQL_ASCII"), ("migrate", "LATIN1")]
)
def test_a_database_in_another_encoding_is_refused_with_its_name_and_the_way_out(
    place: Installation, postgres_server: Postgres, command: str, encoding: str
) -> None:
    url = postgres_server.create(encoding=encoding)

    done = place(command, env={"UNSTICK_DATABASE_URL": url})

    postgres_server.drop(url)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said(encoding, url.rpartition("/")[2]))


def test_doctor_names_the_encoding(place: Installation, postgres_server: Postgres) -> None:
    url = postgres_server.create(encoding="SQL_ASCII")

    done = place("doctor", env={"UNSTICK_DATABASE_URL": url})

    postgres_server.drop(url)
    assert done.returncode == 1
    assert "BAD   The database " in done.stdout
    assert "has the encoding SQL_ASCII; the record needs UTF8." in done.stdout
