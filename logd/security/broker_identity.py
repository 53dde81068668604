"""The identity of brokers among each other: a password that all brokers of a cluster can derive, and nobody else.

It comes from a secret in the coordination tree that only brokers can read once the tree is protected.
"""

from __future__ import annotations

import hmac
from hashlib import sha256

#: Bytes of the secret.
SECRET_BYTES = 32


def broker_password(secret: bytes) -> str:
    """Return the password of the principal ``logd-broker`` in the cluster of this secret."""
    return hmac.new(secret, b"logd brokers on the native protocol", sha256).hexdigest()
