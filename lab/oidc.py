"""A provider of identities on this machine: a stand-in, held to OpenID Connect Core 1.0 and Discovery 1.0.

It shares no code with the library by which unstick asks: it signs by hand on `cryptography`. Everybody who comes is
signed in as `person`, without a form. A test says what it should get wrong.
"""

import base64
import hashlib
import hmac
import json
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, parse_qsl, unquote_plus, urlencode, urlsplit

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

CLIENT, SECRET = "unstick", "s3cret/of+the:client%"
Answer = tuple[int, Mapping[str, str], bytes]


@dataclass
class Key:
    """A key that signs, and how it is called."""

    kid: str
    private: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey

    @classmethod
    def rsa(cls) -> "Key":
        """Make a key for RS256."""
        return cls(secrets.token_hex(4), rsa.generate_private_key(public_exponent=65537, key_size=2048))

    @classmethod
    def ec(cls) -> "Key":
        """Make a key for ES256."""
        return cls(secrets.token_hex(4), ec.generate_private_key(ec.SECP256R1()))

    @property
    def algorithm(self) -> str:
        """Return with which algorithm it signs."""
        return "RS256" if isinstance(self.private, rsa.RSAPrivateKey) else "ES256"

    @property
    def jwk(self) -> dict[str, str]:
        """Return its public part (RFC 7517; RFC 7518, 6)."""
        named = {"kid": self.kid, "use": "sig", "alg": self.algorithm}
        if isinstance(self.private, rsa.RSAPrivateKey):
            public = self.private.public_key().public_numbers()
            return {**named, "kty": "RSA", "n": _number(public.n, 256), "e": _number(public.e, 3)}
        point = self.private.public_key().public_numbers()
        return {**named, "kty": "EC", "crv": "P-256", "x": _number(point.x, 32), "y": _number(point.y, 32)}

    @property
    def pem(self) -> bytes:
        """Return its public part as a file would hold it."""
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return self.private.public_key().public_bytes(serialization.Encoding.PEM, form)

    def sign(self, text: bytes) -> bytes:
        """Sign (RFC 7518, 3.3 and 3.4)."""
        if isinstance(self.private, rsa.RSAPrivateKey):
            return self.private.sign(text, padding.PKCS1v15(), hashes.SHA256())
        r, s = decode_dss_signature(self.private.sign(text, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")


@dataclass
class OidcServer:
    """The provider, from `with` to its end."""

    now: Callable[[], float]
    #: What is claimed of whoever comes.
    person: dict[str, Any] = field(default_factory=lambda: {"sub": "248289761001", "preferred_username": "ann"})
    key: Key = field(default_factory=Key.rsa)
    #: Claims, members of the header and of discovery in place of the right ones; None leaves one out.
    claims: dict[str, Any] = field(default_factory=dict)
    header: dict[str, Any] = field(default_factory=dict)
    discovery: dict[str, Any] = field(default_factory=dict)
    #: In place of the signature.
    sign: Callable[[bytes], bytes] | None = None
    #: What the authorization endpoint answers instead of a code, and how the issuer beside it is called.
    error: str = ""
    answers_as: str = ""
    #: Every form that came to the token endpoint.
    redeemed: list[dict[str, str]] = field(default_factory=list)
    _codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def __enter__(self) -> Self:
        """Start."""
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.provider = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), name="oidc")
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop; a second time it does nothing."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def issuer(self) -> str:
        """Return how it calls itself."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def answer(self, path: str, form: dict[str, str], authorization: str) -> Answer:
        """Answer one request; `form` is its query or its body."""
        match path:
            case "/.well-known/openid-configuration":
                return _json(200, _without_none({**self._says(), **self.discovery}))
            case "/keys":
                return _json(200, {"keys": [{"kty": "oct", "k": "AAAA"}, {"kty": "new"}, self.key.jwk]})
            case "/authorize":
                return self._authorize(form)
            case "/token":
                return self._token(form, authorization)
            case "/end":
                return 200, {"Content-Type": "text/plain"}, b"signed out"
            case _:
                return _json(404, {"error": "not_found"})

    def _says(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "end_session_endpoint": f"{self.issuer}/end",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256", "ES256"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        }

    def _authorize(self, query: dict[str, str]) -> Answer:
        """Lead back with a code (Core 1.0, 3.1.2); what is asked wrongly is not led anywhere."""
        right = {"client_id": CLIENT, "response_type": "code", "code_challenge_method": "S256"}
        if any(query.get(name) != value for name, value in right.items()) or "openid" not in query.get("scope", ""):
            return _json(400, {"error": "invalid_request"})
        code = secrets.token_urlsafe(16)
        self._codes[code] = query
        given = {"error": self.error} if self.error else {"code": code}
        back = urlencode({**given, "state": query["state"], "iss": self.answers_as or self.issuer})
        return 302, {"Location": f"{query['redirect_uri']}?{back}"}, b""

    def _token(self, form: dict[str, str], authorization: str) -> Answer:
        """Redeem a code once (Core 1.0, 3.1.3; RFC 7636, 4.6)."""
        self.redeemed.append(form)
        name, _, secret = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        if (unquote_plus(name), unquote_plus(secret)) != (CLIENT, SECRET):
            return _json(401, {"error": "invalid_client"})
        begun = self._codes.pop(form.get("code", ""), None)
        made = _text(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        if (
            begun is None
            or form.get("grant_type") != "authorization_code"
            or form.get("redirect_uri") != begun["redirect_uri"]
            or not hmac.compare_digest(made, begun["code_challenge"])
        ):
            return _json(400, {"error": "invalid_grant"})
        access = secrets.token_urlsafe(16)
        token = self._id_token(begun["nonce"], access)
        return _json(200, {"access_token": access, "token_type": "Bearer", "expires_in": 60, "id_token": token})

    def _id_token(self, nonce: str, access: str) -> str:
        now = int(self.now())
        half = hashlib.sha256(access.encode()).digest()[:16]
        claims = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": nonce}
        claims = _without_none({**claims, "at_hash": _text(half), **self.person, **self.claims})
        header = _without_none({"alg": self.key.algorithm, "kid": self.key.kid, "typ": "JWT", **self.header})
        said = f"{_text(json.dumps(header).encode())}.{_text(json.dumps(claims).encode())}"
        return f"{said}.{_text((self.sign or self.key.sign)(said.encode()))}"


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    provider: OidcServer


class _Handler(BaseHTTPRequestHandler):
    server: _Http

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        self._send(self.server.provider.answer(asked.path, dict(parse_qsl(asked.query)), ""))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
        form = {name: values[0] for name, values in parse_qs(body).items()}
        path = urlsplit(self.path).path
        self._send(self.server.provider.answer(path, form, self.headers.get("Authorization", "")))

    def log_message(self, *_args: object) -> None:
        """Say nothing."""

    def _send(self, answer: Answer) -> None:
        status, headers, body = answer
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def _json(status: int, value: Mapping[str, Any]) -> Answer:
    return status, {"Content-Type": "application/json"}, json.dumps(value).encode()


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _number(number: int, size: int) -> str:
    return _text(number.to_bytes(size, "big"))


def _text(data: bytes) -> str:
    """Return bytes in base64url without padding (RFC 7515, 2)."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
