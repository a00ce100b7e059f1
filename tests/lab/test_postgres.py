"""Each test process has a PostgreSQL of its own, and a fresh database costs little."""

import socket
from urllib.parse import urlsplit

import psycopg

from lab import leftovers
from lab.postgres import Postgres

pytest_plugins = ["lab.fixtures"]


def _ask(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url.replace("+psycopg", "", 1)) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def test_two_databases_know_nothing_of_each_other(postgres_server: Postgres) -> None:
    first, second = postgres_server.create(), postgres_server.create()

    _ask(first, "CREATE TABLE mark AS SELECT 1 AS number")

    count = "SELECT count(*) FROM pg_tables WHERE tablename = 'mark'"
    assert (_ask(first, count), _ask(second, count)) == ([(1,)], [(0,)])


def test_a_database_can_be_copied_and_dropped(postgres_server: Postgres) -> None:
    original = postgres_server.create()
    _ask(original, "CREATE TABLE mark AS SELECT 7 AS number")

    copy = postgres_server.create(template=original.rpartition("/")[2])
    postgres_server.drop(original)

    names = [name for (name,) in _ask(postgres_server.url(), "SELECT datname FROM pg_database")]
    assert (_ask(copy, "SELECT number FROM mark"), original.rpartition("/")[2] in names) == ([(7,)], False)


def test_a_killed_server_comes_back_with_what_was_committed_and_a_closed_one_leaves_nothing() -> None:
    with Postgres(durable=True) as server:
        url = server.create()
        _ask(url, "CREATE TABLE mark AS SELECT 3 AS number")

        server.kill()
        server.restart()

        found = _ask(url, "SELECT number FROM mark")
        data, port = server.data, urlsplit(url).port or 0

    with socket.socket() as probe:
        closed = probe.connect_ex(("127.0.0.1", port)) != 0
    left = [record.name for record in leftovers.all_records() if str(data.parent) in record.folders]
    assert (found, closed, data.exists(), left) == ([(3,)], True, False, [])
