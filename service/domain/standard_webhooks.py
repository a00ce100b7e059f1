"""Signatures of Standard Webhooks: HMAC-SHA256 over `<id>.<seconds>.<body>`, in base64.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import base64
import hashlib
import hmac
from typing import Final

_PREFIX: Final = "whsec_"
_KEY_BYTES: Final = range(24, 65)
#: What is said of a secret that is none.
UNUSABLE: Final = "The secret is none of Standard Webhooks: `whsec_` and 24 to 64 bytes in base64."
HOW_TO_MAKE_ONE: Final = 'Make one: printf "whsec_%s\\n" "$(head -c 32 /dev/urandom | base64)".'


def key_of(secret: str) -> bytes | None:
    """Return the key that a secret (`whsec_...`) stands for; None when it is none."""
    encoded = secret.removeprefix(_PREFIX)
    if encoded == secret:
        return None
    try:
        key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except ValueError:
        return None
    return key if len(key) in _KEY_BYTES else None


def signature(key: bytes, *, message: bytes, timestamp: bytes, body: bytes) -> bytes:
    """Return the signature without its `v1,`."""
    return base64.b64encode(hmac.digest(key, b".".join([message, timestamp, body]), hashlib.sha256))
