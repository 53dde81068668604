"""SCRAM (RFC 5802, RFC 7677): proves a password to a broker without sending it, and the broker to the client.

What a broker keeps of a password is a verifier. Neither it nor a recorded exchange is enough to authenticate.
"""

from __future__ import annotations

import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from hashlib import pbkdf2_hmac
from typing import Any, Self

from attrs import define, field, frozen

from logd.errors import AuthenticationFailed

#: The mechanisms, and the hash function of each. The first is what our own clients use.
HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISMS = tuple(HASHES)
#: The mechanism that sends the password itself, inside TLS only.
PLAIN = "PLAIN"
#: Rounds of hashing for a new verifier. Each costs a client some 0.4 us at each connection (measured), and whoever has
#: stolen the verifiers as much for each guess.
ITERATIONS = 8192
#: The fewest that SCRAM allows, enough for a password that is random.
LEAST_ITERATIONS = 4096
#: A server that asks for more would keep a client busy.
MOST_ITERATIONS = 200_000
SALT_BYTES = 16
#: Characters of a message that is read at all.
MOST_BYTES = 4096
#: The answer to an unknown user, a wrong password, and everything else that is wrong with an exchange.
REFUSAL = "the user or the password is wrong"

_NONCE = re.compile(r",r=([^,]*)(?:,|\Z)")
_ITERATIONS = re.compile(r"(?:\A|,)i=(\d+)(?:,|\Z)")


def _scramp() -> Any:
    """Return the package's module, loaded when the first user is proved: most commands, and Spark, need none."""
    from scramp import core

    return core


def prepared(text: str) -> str:
    """Return a name or a password in the form in which clients prove it (SASLprep, RFC 4013): a letter has one form.

    Raises ValueError for characters that have none, such as emoji.
    """
    if text.isascii():
        return text
    from scramp.utils import saslprep

    try:
        return str(saslprep(text))
    except _scramp().ScramException as error:
        raise ValueError(str(error)) from None


@frozen
class Verifier:
    """The values by which a password is verified, for one mechanism."""

    salt: bytes = field(repr=False)
    iterations: int
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)

    @classmethod
    def of(cls, mechanism: str, password: str, salt: bytes, iterations: int = ITERATIONS) -> Self:
        """Make the verifier of a password. Hashes for milliseconds."""
        found = _scramp().ScramMechanism(mechanism).make_auth_info(password, iteration_count=iterations, salt=salt)
        return cls(salt, iterations, found[1], found[2])

    @classmethod
    def fake(cls, mechanism: str, name: str, secret: bytes) -> Self:
        """Return the verifier of a user who does not exist: the same for each attempt, and of no password."""

        def some(what: str, size: int) -> bytes:
            text = f"{what} of {name} for {mechanism}".encode("utf-8", "surrogatepass")
            return hmac.digest(secret, text, "sha512")[:size]

        size = 32 if HASHES[mechanism] == "sha256" else 64
        return cls(some("salt", SALT_BYTES), ITERATIONS, some("stored key", size), some("server key", size))

    def matches(self, mechanism: str, password: str) -> bool:
        """Return whether this is the verifier of ``password``. Hashes for milliseconds, for every password as long."""
        try:
            found = self.of(mechanism, password, self.salt, self.iterations)
            return hmac.compare_digest(found.stored_key, self.stored_key)
        except _scramp().ScramException:  # no password has these characters
            pbkdf2_hmac(HASHES[mechanism], b"", self.salt, self.iterations)
            return False

    def to_json(self) -> dict[str, Any]:
        """Return the verifier for a JSON object."""
        return {
            "salt": b64encode(self.salt).decode(),
            "iterations": self.iterations,
            "stored_key": b64encode(self.stored_key).decode(),
            "server_key": b64encode(self.server_key).decode(),
        }

    @classmethod
    def from_json(cls, mechanism: str, content: Mapping[str, Any]) -> Self:
        """Read it. Raises ValueError, KeyError or TypeError."""
        salt, stored, server = (
            b64decode(content[name], validate=True) for name in ("salt", "stored_key", "server_key")
        )
        iterations = content["iterations"]
        size = 32 if HASHES[mechanism] == "sha256" else 64
        if type(iterations) is not int or not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS:
            raise ValueError(f"{iterations!r} iterations")
        if len(salt) < 12 or (len(stored), len(server)) != (size, size):
            raise ValueError("a salt or a key of a wrong length")
        return cls(salt, iterations, stored, server)


@define
class ServerExchange:
    """The broker's side of one exchange: two messages of the client, each answered. Any error ends it for good.

    ``verifier_of(name)`` returns the verifier of a user, or a fake one, so that both take the same time.
    """

    mechanism: str
    _verifier_of: Callable[[str], Verifier]
    #: The name that the client gives, from its first message on.
    user: str = field(default="", init=False)
    #: True once the client has proved that it knows the password.
    done: bool = field(default=False, init=False)
    _server: Any = field(init=False)
    _client_nonce: str = field(default="", init=False)

    def __attrs_post_init__(self) -> None:
        self._server = _scramp().ScramMechanism(self.mechanism).make_server(self._verifier)

    def receive(self, message: bytes) -> bytes:
        """Take the next message of the client, and return the answer. Raises AuthenticationFailed."""
        server, self._server = self._server, None
        if server is None or len(message) > MOST_BYTES:
            raise AuthenticationFailed(REFUSAL)
        try:
            text = message.decode()
            if self.user:
                self._expect_repeated_nonce(server, text)
                server.set_client_final(text)
                answer: str = server.get_server_final()
                self.done = True
            else:
                server.set_client_first(text)
                answer = server.get_server_first()
                self._client_nonce = _nonce_of(text)
                self._server = server
        except (_scramp().ScramException, ValueError, TypeError, KeyError, IndexError):
            raise AuthenticationFailed(REFUSAL) from None
        return answer.encode()

    def _expect_repeated_nonce(self, server: Any, text: str) -> None:
        """Let the client put its own nonce before the whole one, as librdkafka before 2.2 does (and kcat of Debian 12).

        That is exactly one more text that is expected. The proof covers it, and with it the broker's nonce, so an
        exchange of before is as little good as without this.
        """
        repeated = f"{self._client_nonce}{server.nonce}"
        if _nonce_of(text) == repeated:
            server.nonce = type(server.nonce)(repeated)

    def _verifier(self, name: str) -> tuple[bytes, bytes, bytes, int]:
        self.user = name
        verifier = self._verifier_of(name)
        return verifier.salt, verifier.stored_key, verifier.server_key, verifier.iterations


def _nonce_of(message: str) -> str:
    found = _NONCE.search(message)
    return "" if found is None else found[1]


@define
class ClientExchange:
    """The client's side of one exchange: ``first``, then ``answer`` to the challenge, then ``check`` of the proof."""

    mechanism: str
    user: str
    _password: str = field(repr=False)
    _client: Any = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        try:
            self._client = _scramp().ScramClient([self.mechanism], self.user, self._password)
        except _scramp().ScramException as error:
            raise AuthenticationFailed(f"the user {self.user!r}, or its password, is not allowed: {error}") from None

    def first(self) -> bytes:
        """Return the first message."""
        message: str = self._client.get_client_first()
        return message.encode()

    def answer(self, challenge: bytes) -> bytes:
        """Return the proof. Hashes for milliseconds. Raises AuthenticationFailed if the challenge makes no sense."""
        try:
            text = challenge.decode()
            found = _ITERATIONS.search(text)
            if found is not None and (len(found[1]) > 9 or int(found[1]) > MOST_ITERATIONS):
                raise ValueError(f"{found[1][:20]} iterations, {MOST_ITERATIONS} are allowed")
            self._client.set_server_first(text)
            proof: str = self._client.get_client_final()
        except (_scramp().ScramException, ValueError, TypeError, KeyError, IndexError) as error:
            raise AuthenticationFailed(f"the broker's challenge makes no sense: {error}") from None
        return proof.encode()

    def check(self, proof: bytes) -> None:
        """Raise AuthenticationFailed unless the broker has proved that it knows the user's verifier."""
        try:
            self._client.set_server_final(proof.decode())
        except (_scramp().ScramException, ValueError, TypeError, KeyError, IndexError):
            raise AuthenticationFailed(
                "the broker could not prove that it knows this user: something else may be listening at its address"
            ) from None
