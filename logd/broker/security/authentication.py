"""Checks who clients are, for all protocols: by SCRAM, by a password inside TLS, or by a client's certificate.

An unknown user and a wrong password get the same answer after the same time. SCRAM costs a broker some microseconds; a
password has to be hashed for milliseconds, on a thread, one at a time, so that many attempts stop nothing else.
"""

from __future__ import annotations

import hmac
from collections import OrderedDict
from collections.abc import Callable, Mapping
from hashlib import sha256
from secrets import token_bytes
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred

from logd.broker.security.requester import Requester
from logd.deferreds.locking import QueueLock
from logd.deferreds.sleeping import sleep
from logd.errors import AuthenticationFailed, BrokerUnavailable, CoordinationUnavailable, RequestTimedOut
from logd.interfaces import Clock, IThreads
from logd.security.broker_identity import broker_password
from logd.security.credentials import Credentials
from logd.security.principals import BROKER
from logd.security.scram import (
    LEAST_ITERATIONS,
    MECHANISMS,
    MOST_BYTES,
    PLAIN,
    REFUSAL,
    ServerExchange,
    Verifier,
)
from logd.security.users import MOST_PASSWORD_CHARACTERS, User

#: Seconds between a failed attempt and its answer, after which the connection is closed.
FAILURE_SECONDS = 1.0
#: Passwords that wait to be hashed; further attempts are told to come again.
MOST_WAITING = 64
#: Passwords that were right, remembered by a hash under a key of this process, so that each is hashed for long once.
MOST_REMEMBERED = 1000
#: The mechanism of a certificate, in log lines and metrics.
CERTIFICATE = "certificate"
#: That of connections with a listener whose clients are all one user.
LISTENER = "listener"

#: The verifier with which a requester has proved itself: it is cut off when that changes. None for a certificate.
Credential = User | bytes | None


@define(eq=False)
class Authentication:
    """The users of a cluster, as this broker last saw them, and the checks of all its connections."""

    _clock: Clock
    _threads: IThreads
    #: None until they have been read from the tree.
    _users: Mapping[str, User] | None = field(default=None, init=False)
    _secret: bytes | None = field(default=None, init=False)
    #: Attempts by mechanism and success, for the metrics.
    attempts: dict[tuple[str, bool], int] = field(factory=dict, init=False)
    #: Called with the requester, the name of the user and the mechanism of each failed attempt, to record it.
    on_failed: Callable[[Requester, str, str], None] | None = field(default=None, init=False)
    #: For users that do not exist, before there is a secret.
    _own_secret: bytes = field(factory=lambda: token_bytes(32), init=False)
    _of_brokers: dict[str, Verifier] = field(factory=dict, init=False)
    _hashing: QueueLock = field(factory=QueueLock, init=False)
    _waiting: int = field(default=0, init=False)
    _remembered: OrderedDict[bytes, Credential] = field(factory=OrderedDict, init=False)

    def take(self, users: Mapping[str, User]) -> None:
        """Take the users that the tree has now."""
        self._users = dict(users)
        self._remembered.clear()

    def take_secret(self, secret: bytes) -> None:
        """Take the secret of the cluster's brokers, with which they authenticate as ``logd-broker``."""
        if secret != self._secret:
            self._secret = secret
            self._of_brokers.clear()

    @property
    def users(self) -> Mapping[str, User]:
        """The users by their names; none before they have been read."""
        return self._users or {}

    @property
    def has_users(self) -> bool:
        """True if there are users."""
        return bool(self._users)

    def is_current(self, requester: Requester) -> bool:
        """Return whether what the requester has proved itself with still holds: the user exists, with that password."""
        if not requester.authenticated or requester.credential is None:
            return True
        return bool(requester.credential == self.credential_of(requester.principal))

    def verifier_of(self, mechanism: str, name: str) -> Verifier:
        """Return the verifier of a user, or one of no password. Takes the same time for both."""
        fake = Verifier.fake(mechanism, name, self._secret or self._own_secret)
        if name == BROKER and self._secret is not None:
            verifier = self._of_brokers.get(mechanism)
            if verifier is None:
                password = broker_password(self._secret)
                verifier = Verifier.of(mechanism, password, fake.salt, LEAST_ITERATIONS)
                self._of_brokers[mechanism] = verifier
            return verifier
        user = (self._users or {}).get(name)
        return fake if user is None else user.verifiers.get(mechanism, fake)

    def own_credentials(self) -> Credentials:
        """Return those of this broker's own connections. Raises BrokerUnavailable before they are known."""
        if self._secret is None:
            raise BrokerUnavailable("the secret of the brokers has not been read from the coordination tree yet")
        return Credentials(BROKER, broker_password(self._secret))

    def prove(self, requester: Requester, principal: str, mechanism: str) -> None:
        """Note that the requester is the user ``principal``."""
        by_password = mechanism not in (CERTIFICATE, LISTENER)
        requester.credential = self.credential_of(principal) if by_password else None
        requester.principal, requester.mechanism, requester.authenticated = principal, mechanism, True
        self.attempts[mechanism, True] = self.attempts.get((mechanism, True), 0) + 1

    async def check_password(self, name: str, password: str) -> None:
        """Return if it is the user's. Raises AuthenticationFailed, or RequestTimedOut when too many are being checked.

        A password that was right is remembered in memory, so that it is hashed for long only once.
        """
        self.check_known()
        if len(name) + len(password) > MOST_BYTES or len(password) > MOST_PASSWORD_CHARACTERS:
            raise AuthenticationFailed(REFUSAL)
        text = f"{len(name)} {name}{password}".encode("utf-8", "surrogatepass")
        key = hmac.digest(self._own_secret, text, sha256().name)
        credential = self.credential_of(name)
        if credential is not None and self._remembered.get(key) == credential:
            self._remembered.move_to_end(key)
            return
        mechanism = MECHANISMS[0]
        verifier = self.verifier_of(mechanism, name)
        right = await self._on_thread(lambda: verifier.matches(mechanism, password))
        # The user may have been removed meanwhile.
        if not right or credential is None or self.credential_of(name) != credential:
            raise AuthenticationFailed(REFUSAL)
        self._remembered[key] = credential
        if len(self._remembered) > MOST_REMEMBERED:
            self._remembered.popitem(last=False)

    def check_known(self) -> None:
        """Raise CoordinationUnavailable before the users have been read."""
        if self._users is None or self._secret is None:
            raise CoordinationUnavailable("the users have not been read from the coordination tree yet")

    def failed(self, requester: Requester, mechanism: str, user: str) -> Deferred[None]:
        """Count and record a failed attempt. Fires after a while, the same for every reason."""
        known = mechanism if mechanism in (*MECHANISMS, PLAIN, "HTTP") else "other"
        self.attempts[known, False] = self.attempts.get((known, False), 0) + 1
        if self.on_failed is not None:
            self.on_failed(requester, user[:MOST_BYTES], known)
        return sleep(self._clock, FAILURE_SECONDS)

    def credential_of(self, name: str) -> Credential:
        """Return what a user proves itself with now, None if there is no such user."""
        if name == BROKER:
            return self._secret
        return (self._users or {}).get(name)

    async def _on_thread(self, work: Callable[[], bool]) -> bool:
        if self._waiting >= MOST_WAITING:
            raise RequestTimedOut("the broker is checking many passwords: try again later")
        self._waiting += 1
        try:
            await self._hashing.acquire()
            return bool(await self._run(work))
        finally:
            self._waiting -= 1

    def _run(self, work: Callable[[], bool]) -> Deferred[Any]:
        """Run on a thread. What waits on it may be cancelled; the work goes on, and the next one waits for its end."""
        finished: Deferred[Any] = Deferred(lambda _: None)

        def done(result: Any, error: BaseException | None) -> None:
            self._hashing.release()
            if finished.called:
                return
            if error is None:
                finished.callback(result)
            else:
                finished.errback(error)

        try:
            self._threads.run(work, done)
        except BaseException:  # no thread can start: the next one may try
            self._hashing.release()
            raise
        return finished


@define(eq=False)
class ConnectionAuthentication:
    """The exchange of one connection."""

    _authentication: Authentication
    _requester: Requester
    #: Returns whether the connection is inside TLS, so that a password may be sent.
    _is_private: Callable[[], bool]
    _exchange: ServerExchange | None = field(default=None, init=False)
    #: The credential with which the exchange began.
    _credential: Credential = field(default=None, init=False)
    #: The check of a password, or the delay of a failure.
    _waiting: Deferred[None] | None = field(default=None, init=False)

    def lost(self) -> None:
        """End the wait for a check or a delay, by CancelledError: the connection is lost, and is to be nobody's."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.cancel()

    def mechanisms(self) -> tuple[str, ...]:
        """Return the mechanisms that this connection may use."""
        return (*MECHANISMS, PLAIN) if self._is_private() else MECHANISMS

    async def step(self, mechanism: str, data: bytes) -> tuple[bool, bytes]:
        """Take a message of the client; return whether it has proved to be the user, and the answer.

        Raises AuthenticationFailed after a while, and then the connection is to be closed.
        """
        everything, exchange = self._authentication, self._exchange
        user = ""
        try:
            everything.check_known()
            if mechanism not in self.mechanisms() or (exchange is not None and exchange.mechanism != mechanism):
                raise AuthenticationFailed(self._unsupported(mechanism))
            if mechanism == PLAIN:
                user, password = read_plain(data)
                self._waiting = Deferred.fromCoroutine(everything.check_password(user, password))
                await self._waiting
                self._waiting = None
                everything.prove(self._requester, user, PLAIN)
                return True, b""
            if exchange is None:
                exchange = self._exchange = ServerExchange(mechanism, lambda name: self._verifier_of(mechanism, name))
            answer = exchange.receive(data)
            user = exchange.user
            # The user may have been removed meanwhile, or have another password: a client may wait as long as it likes.
            if exchange.done and self._credential != everything.credential_of(user):
                raise AuthenticationFailed(REFUSAL)
        except AuthenticationFailed:
            self._exchange = None
            user = user or (exchange.user if exchange else "")
            self._waiting = everything.failed(self._requester, mechanism, user)
            await self._waiting
            self._waiting = None
            raise
        if exchange.done:
            self._exchange = None
            everything.prove(self._requester, user, mechanism)
        return exchange.done, answer

    def _verifier_of(self, mechanism: str, name: str) -> Verifier:
        self._credential = self._authentication.credential_of(name)
        return self._authentication.verifier_of(mechanism, name)

    def _unsupported(self, mechanism: str) -> str:
        if mechanism == PLAIN:
            return "PLAIN sends the password as it is, and is refused outside TLS: use SCRAM-SHA-256, or a TLS listener"
        return f"the mechanism {mechanism[:50]!r} is not allowed; allowed are {', '.join(self.mechanisms())}"


def read_plain(data: bytes) -> tuple[str, str]:
    """Return the user and the password in a message of PLAIN (RFC 4616). Raises AuthenticationFailed."""
    try:
        acting, user, password = data[: MOST_BYTES + 1].decode().split("\0")
    except ValueError:
        raise AuthenticationFailed(REFUSAL) from None
    if acting not in ("", user) or not user or not password or len(data) > MOST_BYTES:
        raise AuthenticationFailed(REFUSAL)
    return user, password
