"""Writes of sweeps."""

from sqlalchemy import Connection, delete, insert

from service.domain.sweep import NodeLook, OpenFinding, SweepState
from service.store.sweep_tables import sweep_findings, sweep_looks, sweeps


def put_sweep(connection: Connection, state: SweepState) -> None:
    """Write how a schedule stands, in place of what stood there."""
    connection.execute(delete(sweeps).where(sweeps.c.name == state.name))
    connection.execute(insert(sweeps), vars(state))


def put_look(connection: Connection, look: NodeLook) -> None:
    """Write the newest look of a sweep at a node."""
    c = sweep_looks.c
    connection.execute(delete(sweep_looks).where(c.node == look.node, c.sweep == look.sweep))
    connection.execute(insert(sweep_looks), vars(look))


def put_finding(connection: Connection, finding: OpenFinding) -> None:
    """Write that something was found, in place of an earlier occasion."""
    remove_finding(connection, finding)
    connection.execute(insert(sweep_findings), vars(finding))


def remove_finding(connection: Connection, finding: OpenFinding) -> None:
    """Write that it was seen fine."""
    c = sweep_findings.c
    place = (c.node == finding.node, c.sweep == finding.sweep, c.step == finding.step)
    connection.execute(delete(sweep_findings).where(*place))
