"""doctor says what people forget of a deployment, before they need it."""

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import SecretStr

from service.app.tokens import create_token
from service.domain.person import Role
from service.main import open_store, record_service
from service.settings import Settings
from tests.cli.installation import Installation
from tests.support.world import SteppedClock

RULES = """\
sources: {prom: {kind: alertmanager, token: prom}, other: {kind: alertmanager, token: ann}}
rules: []
"""
NOTIFY = """\
base_url: https://ops.example.net/unstick/
receivers: {desk: {kind: webhook, url: https://desk.example.net/, secret_files: [desk]}}
notices: [{to: [desk], runbooks: [lok]}]
"""
LOGIN = """\
base_url: http://127.0.0.1:8000
oidc: {name: SSO, issuer: 'http://127.0.0.1:9/realms/main', client_id: unstick, client_secret_file: oidc}
groups: {all: [viewer]}
"""


@pytest.fixture
def place(tmp_path: Path) -> Installation:
    made = Installation(tmp_path / "place")
    made("migrate")
    return made


def test_doctor_says_what_of_tokens_links_and_clock_would_be_found_out_too_late(place: Installation) -> None:
    (place.folder / "config" / "rules.yaml").write_text(RULES)
    (place.folder / "config" / "notify.yaml").write_text(NOTIFY)
    clock = SteppedClock(datetime(2099, 1, 1, tzinfo=UTC))
    settings = Settings(database_url=SecretStr(f"sqlite:///{place.database}"))
    with closing(open_store(settings, clock)) as store:
        service = record_service(store, clock=clock)
        create_token(service, "ann", roles=frozenset({Role.OPERATOR}), person="ann", by="test")
        create_token(service, "idle", roles=frozenset({Role.SOURCE}), person="idle", by="test", expires="never")

    done = place("doctor", env={"UNSTICK_HOST": "0.0.0.0"})
    verified = place("audit", "verify")

    head = verified.stdout.rpartition("--expect ")[2].split()[0]
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    told = [line for line in lines if "the role source." in line]
    assert [line.split()[3] for line in told] == ["prom", "other"]
    assert "      unstick token create --name prom --role source" in lines
    assert (
        f"good  The record ends at {head}: kept elsewhere, `unstick audit verify --expect` shows what is cut off"
        in lines
    )
    assert any(line.startswith("BAD   The clock of this machine says ") and "2099-01-01" in line for line in lines)
    assert any(line.startswith("BAD   `base_url` of notify.yaml is https://ops.example.net/unstick") for line in lines)
    assert "BAD   notify.yaml names the runbook lok, which is not there." in lines
    assert any(line.startswith("good  The service listens on 0.0.0.0, where others reach it") for line in lines)
    assert any(line.startswith("good  Tokens that never end: idle.") for line in lines)
    assert any(line.startswith("good  No token has the role admin") for line in lines)


def test_doctor_says_of_a_provider_that_is_silent_how_to_look_for_it_from_here(place: Installation) -> None:
    config = place.folder / "config"
    (config / "login.yaml").write_text(LOGIN)
    (config / "oidc").write_text("client-secret-1\n")
    (config / "oidc").chmod(0o600)

    silent = place("doctor")
    (config / "oidc").chmod(0o644)
    open_to_all = place("doctor")

    assert "login.yaml: 1 groups with roles" in silent.stdout
    assert "BAD   `base_url` is http://127.0.0.1:8000: the provider's answer goes without TLS." in silent.stdout
    assert (
        "BAD   Nobody can sign in with SSO. SSO does not answer as it should: its discovery document" in silent.stdout
    )
    assert "curl -v http://127.0.0.1:9/realms/main/.well-known/openid-configuration" in silent.stdout
    assert "Sign in with a token" not in silent.stdout
    assert f"chmod 0600 {config / 'oidc'}" in open_to_all.stdout
