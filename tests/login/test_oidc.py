"""What a provider says is believed when it is signed, meant for us and of this signing in; else nobody is known."""

import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lab.oidc import Key, OidcServer
from service.app.login_ports import Flow
from service.domain.errors import ConfigInvalid, ProviderSilent, Unauthenticated
from service.domain.login import Identity, OidcConfig, VouchedBy
from service.login.oidc import OidcProvider
from tests.login.signing_in import BACK, config_for, led_back, new_flow

NOW = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)


@pytest.fixture(scope="module")
def keys() -> list[Key]:
    """Give two keys of one kind: making one takes a while."""
    return [Key.rsa(), Key.rsa()]


@pytest.fixture
def provider(keys: list[Key]) -> Iterator[OidcServer]:
    """Give a provider that knows ann, who is in one group."""
    with OidcServer(NOW.timestamp, key=keys[0]) as server:
        server.person["groups"] = ["gpu-oncall"]
        yield server


@pytest.fixture
def config(provider: OidcServer, tmp_path: Path) -> OidcConfig:
    """Give how it is asked."""
    return config_for(provider, tmp_path)


def signed_in(config: OidcConfig, asker: OidcProvider | None = None, **more: Any) -> Identity:
    """Sign in from the start; `more` replaces what comes back with the code."""
    asker, flow = asker or OidcProvider(), new_flow()
    given = led_back(asker.address(config, flow))
    asked = {"code": given["code"], "issuer": given.get("iss"), **more}
    return asker.identify(config, flow, now=NOW, **asked)


def ann(config: OidcConfig, *groups: str) -> Identity:
    """Return ann as the provider knows her."""
    return Identity(VouchedBy.OIDC, config.issuer, "248289761001", "ann", frozenset(groups))


@pytest.mark.parametrize("key", [Key.rsa, Key.ec])
def test_a_person_is_known_by_issuer_subject_name_and_groups(
    provider: OidcServer, config: OidcConfig, key: Any
) -> None:
    provider.key = key()

    assert signed_in(config) == ann(config, "gpu-oncall")


def test_the_code_is_redeemed_with_the_verifier_whose_digest_went_through_the_browser(
    provider: OidcServer, config: OidcConfig
) -> None:
    asker, flow = OidcProvider(), new_flow()
    address = asker.address(config, flow)
    given = led_back(address)

    with pytest.raises(Unauthenticated, match="does not stand by its answer"):
        asker.identify(config, replace(flow, verifier="x" * 43), code=given["code"], issuer=given["iss"], now=NOW)

    assert flow.verifier not in address
    assert provider.redeemed[0]["redirect_uri"] == BACK


def test_a_code_counts_once(config: OidcConfig) -> None:
    asker, flow = OidcProvider(), new_flow()
    given = led_back(asker.address(config, flow))
    asker.identify(config, flow, code=given["code"], issuer=given["iss"], now=NOW)

    with pytest.raises(Unauthenticated, match=r"does not stand by its answer \(invalid_grant\)"):
        asker.identify(config, flow, code=given["code"], issuer=given["iss"], now=NOW)


@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "another"},
        {"nonce": None},
        {"aud": "another-client"},
        {"aud": None},
        {"aud": ["unstick", "another-client"]},
        {"aud": "another-client", "azp": "unstick"},
        {"azp": "another-client"},
        {"iss": "https://evil.test"},
        {"iss": None},
        {"exp": int(NOW.timestamp()) - 61},
        {"exp": None},
        {"iat": int(NOW.timestamp()) + 3600},
        {"nbf": int(NOW.timestamp()) + 3600},
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
        {"at_hash": "AAAA"},
    ],
)
def test_an_id_token_that_is_not_meant_for_this_signing_in_is_refused(
    provider: OidcServer, config: OidcConfig, claims: dict[str, Any]
) -> None:
    provider.claims = claims

    with pytest.raises(Unauthenticated, match="not meant for this signing in"):
        signed_in(config)


def test_a_token_without_a_signature_is_refused(provider: OidcServer, config: OidcConfig) -> None:
    provider.header, provider.sign = {"alg": "none"}, lambda _text: b""

    with pytest.raises(Unauthenticated, match="not signed by Example SSO"):
        signed_in(config)


@pytest.mark.parametrize("algorithm", ["HS256", "RS256"])
def test_a_public_key_is_no_secret_to_sign_with(provider: OidcServer, config: OidcConfig, algorithm: str) -> None:
    provider.header = {"alg": algorithm}
    provider.sign = lambda text: hmac.new(provider.key.pem, text, hashlib.sha256).digest()

    with pytest.raises(Unauthenticated, match="not signed by Example SSO"):
        signed_in(config)


# With a whole key in it a header is longer than is read at all (512 bytes).
@pytest.mark.parametrize("names", [(), ("jku", "kid"), ("jwk",)])
def test_a_signature_of_another_key_is_refused_whatever_the_header_says(
    provider: OidcServer, config: OidcConfig, keys: list[Key], names: tuple[str, ...]
) -> None:
    said = {"jwk": keys[1].jwk, "jku": "https://evil.test/keys", "kid": keys[1].kid}
    provider.header = {name: said[name] for name in names}
    provider.sign = keys[1].sign

    with pytest.raises(Unauthenticated, match="not signed by Example SSO"):
        signed_in(config)


def test_an_algorithm_that_is_not_allowed_is_refused(config: OidcConfig) -> None:
    with pytest.raises(Unauthenticated, match="not signed by Example SSO"):
        signed_in(replace(config, algorithms=("ES256",)))


def test_new_keys_of_the_provider_are_used_at_once(provider: OidcServer, config: OidcConfig, keys: list[Key]) -> None:
    asker = OidcProvider()
    signed_in(config, asker)
    provider.key = keys[1]

    assert signed_in(config, asker) == ann(config, "gpu-oncall")


@pytest.mark.parametrize("issuer", ["https://evil.test", None])
def test_a_code_of_another_provider_is_not_redeemed(
    provider: OidcServer, config: OidcConfig, issuer: str | None
) -> None:
    with pytest.raises(Unauthenticated, match="does not come from Example SSO"):
        signed_in(config, issuer=issuer)

    assert provider.redeemed == []


@pytest.mark.parametrize("verified", [False, None, "true"])
def test_an_e_mail_address_that_nobody_has_verified_is_no_name(
    provider: OidcServer, config: OidcConfig, verified: object
) -> None:
    provider.person |= {"email": "ann@example.net", "email_verified": verified}
    by_mail = replace(config, person_claim="email")

    with pytest.raises(Unauthenticated, match="has not verified your e-mail address"):
        signed_in(by_mail)
    provider.person["email_verified"] = True

    assert signed_in(by_mail).person == "ann@example.net"


@pytest.mark.parametrize("name", [None, "", 7, ["ann"]])
def test_who_has_no_name_is_nobody(provider: OidcServer, config: OidcConfig, name: object) -> None:
    provider.person["preferred_username"] = name

    with pytest.raises(Unauthenticated, match="does not say your name"):
        signed_in(config)


def test_groups_may_stand_deep_in_the_token_or_be_one_or_none(provider: OidcServer, config: OidcConfig) -> None:
    del provider.person["groups"]
    none = signed_in(config).groups
    provider.person["realm_access"] = {"roles": ["a", "b"]}
    deep = signed_in(replace(config, groups_claim="realm_access.roles")).groups
    provider.person["groups"] = "a"
    one = signed_in(config).groups
    provider.person["groups"] = {"a": 1}

    assert (none, deep, one) == (frozenset[str](), frozenset({"a", "b"}), frozenset({"a"}))
    with pytest.raises(Unauthenticated, match="does not list your groups"):
        signed_in(config)


@pytest.mark.parametrize(
    ("discovery", "told"),
    [
        ({"issuer": "https://evil.test"}, "calls itself otherwise than `issuer` in login.yaml"),
        ({"token_endpoint": None}, "does not say its token_endpoint"),
        ({"jwks_uri": "file:///etc/shadow"}, "its list of keys has an address that may not be used"),
        ({"token_endpoint": "http://192.0.2.1/token"}, "its token endpoint has an address that may not be used"),
    ],
)
def test_a_provider_that_leads_elsewhere_is_not_followed(
    provider: OidcServer, config: OidcConfig, discovery: dict[str, Any], told: str
) -> None:
    provider.discovery = discovery

    with pytest.raises(ProviderSilent, match=told):
        signed_in(config)


def test_a_provider_that_is_not_there_vouches_for_nobody(provider: OidcServer, config: OidcConfig) -> None:
    asker, flow = OidcProvider(), new_flow()
    given = led_back(asker.address(config, flow))
    gone = replace(config, issuer="http://127.0.0.1:1")

    with pytest.raises(ProviderSilent, match="Example SSO does not answer as it should: its discovery document"):
        asker.address(gone, flow)
    with pytest.raises(ProviderSilent):
        asker.identify(gone, flow, code=given["code"], issuer=given["iss"], now=NOW)
    assert asker.sign_out_address(gone, back=BACK) is None


def test_a_secret_that_others_may_read_is_not_used(config: OidcConfig) -> None:
    Path(config.secret_file).chmod(0o640)

    with pytest.raises(ConfigInvalid, match="Others may read") as refusal:
        signed_in(config)

    assert "s3cret" not in str(refusal.value)


def test_a_wrong_secret_is_told_without_it(config: OidcConfig) -> None:
    Path(config.secret_file).write_text("wrong\n")

    with pytest.raises(Unauthenticated, match=r"invalid_client"):
        signed_in(config)


def test_the_way_out_at_the_provider_needs_no_token_of_it(config: OidcConfig) -> None:
    address = OidcProvider().sign_out_address(config, back="http://unstick.test/sign-in")

    query = "client_id=unstick&post_logout_redirect_uri=http%3A%2F%2Funstick.test%2Fsign-in"
    assert address == f"{config.issuer}/end?{query}"


def test_a_flow_shows_nothing_of_the_service_but_where_to_come_back(config: OidcConfig) -> None:
    flow = Flow("the-state", "the-nonce", "the-verifier", BACK)

    address = OidcProvider().address(config, flow)

    assert address.startswith(f"{config.issuer}/authorize?")
    for part in ("state=the-state", "nonce=the-nonce", "code_challenge_method=S256", "scope=openid+profile"):
        assert part in address.replace("%20", "+")
