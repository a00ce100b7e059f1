"""doctor says what people forget of a deployment, before they need it."""

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import SecretStr

from service.app.tokens import create_token
from service.cli.seen import Seen, noted
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
        f"note  The record ends at {head}: kept elsewhere, `unstick audit verify --expect` shows what is cut off"
        in lines
    )
    assert any(line.startswith("BAD   The clock of this machine says ") and "2099-01-01" in line for line in lines)
    assert any(line.startswith("BAD   `base_url` of notify.yaml is https://ops.example.net/unstick") for line in lines)
    assert "BAD   notify.yaml names the runbook lok, which is not there." in lines
    assert any(line.startswith("note  The service listens on 0.0.0.0, where others reach it") for line in lines)
    assert any(line.startswith("note  Tokens that never end: idle.") for line in lines)
    assert any(line.startswith("note  config/policy.yaml: none,") and "with break-glass off" in line for line in lines)
    assert any(line.startswith("note  No token has the role admin") for line in lines)
    one_machine = (
        "n00, n01, n02, n03, n04 (and 55 more) are all this machine: whatever is meant for one of them acts here"
    )
    assert f"note  {one_machine}" in lines


@pytest.mark.parametrize(
    ("policy", "roles", "told"),
    [
        ("break_glass: true\n", [Role.BREAK_GLASS], ["note  break-glass is on; tokens with the role: breaker"]),
        ("break_glass: true\n", [Role.OPERATOR], ["note  break-glass is on, but no token has the role"]),
        ("break_glass: false\n", [Role.BREAK_GLASS], []),
    ],
)
def test_doctor_says_that_break_glass_is_on_and_who_could_use_it(
    place: Installation, policy: str, roles: list[Role], told: list[str]
) -> None:
    (place.folder / "config" / "policy.yaml").write_text(policy)
    place.token("breaker", *roles)

    lines = place("doctor").stdout.splitlines()

    assert [line for line in lines if "break-glass is" in line] == told


def test_what_is_advice_is_not_called_good() -> None:
    words = [seen.word for seen in (Seen(True, "x"), Seen(False, "x"), noted("x"))]

    assert words == ["good", "BAD ", "note"]


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
