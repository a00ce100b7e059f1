"""A process that writes: `python -m tests.store.writing URL NAME COUNT`. It prints each number once it is durable."""

import sys

from service.app.ports import Transaction
from service.domain.run import Attempt
from service.store.sql_store import SqlStore
from tests.store.made import TestClock, attempt, fact


def main(url: str, name: str, count: int) -> None:
    """Append facts, and a row beside each, until killed or done."""
    store = SqlStore.open(url, TestClock())
    sys.stdin.readline()
    for number in range(count):
        made = attempt(number=number, id=f"{name}-{number}", node_run_id=f"r1-{name}")
        store.write(lambda transaction, made=made: record(transaction, made))  # type: ignore[misc]
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
    store.close()


def record(transaction: Transaction, made: Attempt) -> None:
    """Write a row and the event that tells of it."""
    transaction.append(fact(made.number, about=f"attempt/{made.id}"))
    transaction.add_attempt(made)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
