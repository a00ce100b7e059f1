"""`unstick sessions`: an admin on the host sees who is signed in, and ends it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from service import main
from service.app.sessions import find_session, open_identity
from service.cli.program import run
from service.domain.errors import Unauthenticated
from service.domain.login import Identity, LoginConfig, OidcConfig, VouchedBy
from service.domain.person import Role
from service.settings import load_settings
from tests.login.signing_in import Said

ANN = Identity(VouchedBy.OIDC, "https://sso.example.net", "2482", "ann", frozenset({"leads"}))


def typed(*words: str) -> int:
    """Type a command, and return its exit code."""
    try:
        return run(list(words))
    except SystemExit as done:
        return int(done.code or 0)


def test_sessions_and_accounts_are_listed_ended_and_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    clock = main.SystemClock()
    store = main.open_store(load_settings(), clock)
    oidc = OidcConfig("Example SSO", ANN.issuer, "unstick")
    said = Said(LoginConfig(oidc=oidc, groups={"leads": frozenset({Role.APPROVER})}))
    service = replace(main.record_service(store, clock=clock), login=said)
    first = open_identity(service, ANN, address="192.0.2.1")

    typed("sessions", "list", "--json")
    (listed,) = json.loads(capsys.readouterr().out)
    ended = typed("sessions", "end", "ann")
    again = typed("sessions", "end", "ann")
    told = capsys.readouterr()
    typed("sessions", "list", "--accounts", "--json")
    accounts = json.loads(capsys.readouterr().out)
    other = Identity(VouchedBy.OIDC, ANN.issuer, "another", "ann", ANN.groups)
    with pytest.raises(Unauthenticated, match="ann is another account already"):
        open_identity(service, other, address="")
    typed("sessions", "forget", "ann")
    second = open_identity(service, other, address="")

    assert (listed["person"], listed["with"]["subject"], listed["roles"]) == ("ann", "2482", ["approver"])
    assert (ended, again, told.out) == (0, 2, "1 session of ann ended\n")
    assert "ann has no session." in told.err
    assert accounts == [{"person": "ann", "issuer": ANN.issuer, "subject": "2482"}]
    with pytest.raises(Unauthenticated):
        find_session(service, first.secret)
    assert find_session(service, second.secret).person.name == "ann"
    store.close()
