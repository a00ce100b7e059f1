"""The record alone, for commands that work on the database beside a running service."""

from collections.abc import Iterator
from contextlib import contextmanager

from service import main
from service.app.service import Service
from service.settings import load_settings


@contextmanager
def record(*, must_exist: bool) -> Iterator[Service]:
    """Give what works on the database of the settings; NotFound when it must be there already and is not."""
    clock = main.SystemClock()
    store = main.open_store(load_settings(), clock, must_exist=must_exist)
    try:
        yield main.record_service(store, clock=clock)
    finally:
        store.close()
