"""Every table. What is written in these files, the migrations make; a test compares the two on both databases."""

from service.store import alert_tables as alert_tables
from service.store import notice_tables as notice_tables
from service.store import sign_in_tables as sign_in_tables
from service.store import sweep_tables as sweep_tables
from service.store import tables as tables
from service.store.metadata import metadata as metadata
