"""Asks a provider who somebody is: the authorization code flow of OpenID Connect, with PKCE, state and nonce.

OpenID Connect Core 1.0, Discovery 1.0 and RP-Initiated Logout 1.0 (openid.net/specs); PKCE is RFC 7636, the issuer
beside the code RFC 9207. Nothing that the provider has issued is kept: no access token, no refresh token, no ID token.
"""

import hmac
import os
import re
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.core import CodeIDToken
from authlib.oidc.discovery import get_well_known_url
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey

from service.app.login_ports import Flow
from service.app.secret_line import read_secret_line
from service.domain.errors import ConfigInvalid, ProviderSilent, Unauthenticated
from service.domain.known_secrets import KNOWN
from service.domain.login import Identity, OidcConfig, VouchedBy
from service.login.claims import claim_of, groups_in, person_in
from service.login.provider_http import PATIENCE, ProviderHttp

#: What a provider says of itself is asked anew after so long (seconds); its keys are asked for at each signing in.
_KEPT: Final = 300.0
#: How far the two clocks may differ (seconds).
_LEEWAY: Final = 60
#: Key types whose public part only verifies (RFC 7518, 6.1; RFC 8037, 2).
_KEYS: Final[Mapping[str, type[RSAKey | ECKey | OKPKey]]] = {"RSA": RSAKey, "EC": ECKey, "OKP": OKPKey}
_NEEDED: Final = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_ERROR: Final = re.compile(r"[a-z_]{1,40}")
_AGAIN: Final = "Sign in again from the start."


@dataclass(frozen=True)
class _Kept:
    metadata: Mapping[str, Any]
    asked_at: float


class OidcProvider:
    """One provider at a time. Safe for many threads."""

    def __init__(self, *, patience: float = PATIENCE, tick: Callable[[], float] = time.monotonic) -> None:
        """Wait at most so many seconds for each packet; nothing is asked yet."""
        self._patience = patience
        self._tick = tick
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}

    def address(self, config: OidcConfig, flow: Flow) -> str:
        """Return where to send the browser; ProviderSilent."""
        metadata = self._metadata(config)
        return str(
            prepare_grant_uri(
                metadata["authorization_endpoint"],
                config.client_id,
                "code",
                redirect_uri=flow.redirect_uri,
                scope=" ".join(config.scopes),
                state=flow.state,
                nonce=flow.nonce,
                code_challenge=create_s256_code_challenge(flow.verifier),
                code_challenge_method="S256",
            )
        )

    def identify(self, config: OidcConfig, flow: Flow, *, code: str, issuer: str | None, now: datetime) -> Identity:
        """Return whom the provider vouches for; Unauthenticated, ProviderSilent, ConfigInvalid."""
        metadata = self._metadata(config)
        _insist_on_issuer(config, metadata, issuer)
        answer = self._redeem(config, flow, code=code, metadata=metadata)
        token, access = answer.get("id_token"), answer.get("access_token")
        if not isinstance(token, str):
            raise Unauthenticated(f"{config.name} has not said who you are.", _AGAIN)
        keys = self._http(config).get(metadata["jwks_uri"], what="list of keys").get("keys")
        claims = _believed(config, token, keys=keys if isinstance(keys, list) else [])
        _validate(config, claims, flow=flow, access=access, now=now)
        return Identity(
            VouchedBy.OIDC,
            config.issuer,
            claims["sub"],
            person_in(claims, config),
            groups_in(claim_of(claims, config.groups_claim), config),
        )

    def sign_out_address(self, config: OidcConfig, *, back: str) -> str | None:
        """Return where a browser signs out at the provider; None when there is none, or it does not answer.

        It goes without `id_token_hint`, since no ID token is kept: the provider may ask the person first.
        """
        try:
            address = self._metadata(config).get("end_session_endpoint")
        except ProviderSilent:
            return None
        if not isinstance(address, str) or not address.startswith(("https://", "http://")):
            return None
        query = urlencode({"client_id": config.client_id, "post_logout_redirect_uri": back})
        return f"{address}{'&' if '?' in address else '?'}{query}"

    def check(self, config: OidcConfig) -> None:
        """Return when the provider answers and the secret can be read; ProviderSilent, ConfigInvalid."""
        secret_of(config)
        self._http(config).get(self._metadata(config)["jwks_uri"], what="list of keys")

    def _metadata(self, config: OidcConfig) -> Mapping[str, Any]:
        with self._lock:
            kept = self._kept.get(config.issuer)
        if kept is not None and self._tick() - kept.asked_at < _KEPT:
            return kept.metadata
        asked_at = self._tick()
        url = get_well_known_url(config.issuer, external=True)
        metadata = self._http(config).get(url, what="discovery document")
        # Discovery 1.0, 4.3: another issuer in it is somebody else's document.
        if metadata.get("issuer") != config.issuer:
            raise ProviderSilent(
                f"{config.name} calls itself otherwise than `issuer` in login.yaml.",
                "Write it there exactly as it does.",
            )
        for name in _NEEDED:
            if not isinstance(metadata.get(name), str):
                raise ProviderSilent(f"{config.name} does not say its {name}.", "Is it a provider of OpenID Connect?")
        with self._lock:
            self._kept = {config.issuer: _Kept(metadata, asked_at)}
        return metadata

    def _redeem(self, config: OidcConfig, flow: Flow, *, code: str, metadata: Mapping[str, Any]) -> Mapping[str, Any]:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": flow.redirect_uri,
            "code_verifier": flow.verifier,
        }
        headers, secret = {}, secret_of(config)
        methods = metadata.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        if "client_secret_basic" in methods or "client_secret_post" not in methods:
            # RFC 6749, 2.3.1: both are form-encoded first.
            pair = f"{quote_plus(config.client_id)}:{quote_plus(secret)}"
            headers["authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        else:
            form |= {"client_id": config.client_id, "client_secret": secret}
        http = self._http(config)
        status, answer = http.post(metadata["token_endpoint"], form, headers=headers, what="token endpoint")
        if status == 200:
            return answer
        error = answer.get("error")
        shown = error if isinstance(error, str) and _ERROR.fullmatch(error) else f"status {status}"
        if status >= 500:
            raise ProviderSilent(f"{config.name} does not answer as it should ({shown}).", _AGAIN)
        raise Unauthenticated(f"{config.name} does not stand by its answer ({shown}).", _AGAIN)

    def _http(self, config: OidcConfig) -> ProviderHttp:
        return ProviderHttp(config.name, config.issuer, patience=self._patience)


def secret_of(config: OidcConfig, environment: Mapping[str, str] = os.environ) -> str:
    """Return the client's secret, read anew each time; ConfigInvalid."""
    if config.secret_file:
        return read_secret_line(config.secret_file)
    secret = environment.get(config.secret_variable, "").strip()
    if not secret:
        raise ConfigInvalid(f"The variable {config.secret_variable} is not set.", "It is to hold the client's secret.")
    KNOWN.learn(secret)
    return secret


def _insist_on_issuer(config: OidcConfig, metadata: Mapping[str, Any], issuer: str | None) -> None:
    """Refuse a code that another provider has issued (RFC 9207, 2.4)."""
    says = metadata.get("authorization_response_iss_parameter_supported") is True
    if issuer != config.issuer and (issuer is not None or says):
        raise Unauthenticated(f"The answer does not come from {config.name}.", _AGAIN)


def _believed(config: OidcConfig, token: str, *, keys: Sequence[Any]) -> CodeIDToken:
    """Return what an ID token claims when one of the provider's public keys has signed it."""
    for key in keys:
        if not isinstance(key, dict) or key.get("kty") not in _KEYS or key.get("use", "sig") != "sig":
            continue
        try:
            found = jwt.decode(token, _KEYS[key["kty"]].import_key(key), algorithms=list(config.algorithms))
        except (JoseError, ValueError, TypeError):
            continue
        # A key says for which algorithm it is, if for one alone (RFC 7517, 4.4).
        if key.get("alg", found.header["alg"]) == found.header["alg"]:
            return CodeIDToken(found.claims, found.header)
    raise Unauthenticated(f"What came is not signed by {config.name}.", _AGAIN)


def _validate(config: OidcConfig, claims: CodeIDToken, *, flow: Flow, access: object, now: datetime) -> None:
    """Refuse an ID token that is not for us, not of this signing in, or not of this hour (Core 1.0, 3.1.3.7)."""
    claims.options = {
        "iss": {"essential": True, "value": config.issuer},
        "aud": {"essential": True, "value": config.client_id},
    }
    claims.params = {"client_id": config.client_id, "access_token": access if isinstance(access, str) else ""}
    refused = Unauthenticated(f"What {config.name} said is not meant for this signing in.", _AGAIN)
    nonce, subject = claims.get("nonce"), claims.get("sub")
    if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(), flow.nonce.encode()):
        raise refused
    if not isinstance(subject, str) or not 0 < len(subject) <= 255:
        raise refused
    try:
        claims.validate(now=int(now.timestamp()), leeway=_LEEWAY)
    except (JoseError, ValueError, TypeError) as error:
        raise refused from error
