"""Refusals of a user that does not exist and of a wrong password, compared by their time; needs LOGD_TIMING_ATTEMPTS.

``LOGD_TIMING_ATTEMPTS=2000 python -m twisted.trial tests.integration.security.test_timing`` prints the medians.
"""

from __future__ import annotations

import os
import random
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any
from unittest import skipUnless
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from attrs import frozen
from twisted.trial.unittest import SynchronousTestCase

from logd.net.credentials import basic
from logd.protocol.conversation.client import ClientConversation
from logd.protocol.requests.authenticate import Authenticate, AuthenticateResponse
from logd.security.scram import MECHANISMS, ClientExchange
from tests.integration.peers import PATIENCE
from tests.integration.security.test_users import place

ATTEMPTS = int(os.environ.get("LOGD_TIMING_ATTEMPTS", "0"))
#: Attempts under way at a time: each takes a second.
TOGETHER = 50


@frozen
class Times:
    """Seconds that the broker took, for both kinds of attempts, in the order of the attempts."""

    existing: list[float]
    unknown: list[float]

    def difference(self) -> float:
        """Return the difference of the medians, in seconds."""
        return median(self.existing) - median(self.unknown)

    def noise(self) -> float:
        """Return the difference that chance makes in 95 of 100 cases, by sharing the times out anew 500 times."""
        everything, half = [*self.existing, *self.unknown], len(self.existing)
        found = []
        for _ in range(500):
            random.shuffle(everything)
            found.append(abs(median(everything[:half]) - median(everything[half:])))
        return sorted(found)[475]


def in_random_order(count: int) -> list[str]:
    """Return the user of each attempt, both equally often.

    Not in turn: each second connection may take the broker some microseconds longer, whoever asks.
    """
    users = ["ann", "bob"] * (count // 2)
    random.shuffle(users)
    return users


class Attempt:
    """One connection, which asks one thing at a time."""

    def __init__(self, address: str) -> None:
        host, _, port = address.partition(":")
        self.socket = socket.create_connection((host, int(port)), 30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._conversation = ClientConversation()

    def ask(self, request: Authenticate) -> tuple[AuthenticateResponse, float]:
        """Return the answer, and the seconds that it took."""
        data = b"".join(self._conversation.send(request))
        begun = time.perf_counter()
        self.socket.sendall(data)
        while True:
            received = self.socket.recv(1 << 16)
            ended = time.perf_counter()
            if not received:
                raise ConnectionError("the broker has closed the connection")
            for _, response in self._conversation.receive_data(received):
                answer: Any = response
                return answer, ended - begun


@skipUnless(ATTEMPTS, "set LOGD_TIMING_ATTEMPTS to a number of attempts, such as 2000")
class TimingTests(SynchronousTestCase):
    """The user ann exists; users of the same length do not."""

    def compare(self, what: str, times: Times) -> None:
        """Print the medians, and check that they differ by no more than chance would have it."""
        difference, noise = times.difference(), times.noise()
        count = len(times.existing)
        print(
            f"\n{what}: {count} attempts of each kind, medians {median(times.existing) * 1e6:.1f} us (user exists) and "
            f"{median(times.unknown) * 1e6:.1f} us (no such user); difference {difference * 1e6:+.1f} us, "
            f"95 % of chance {noise * 1e6:.1f} us"
        )
        self.assertLess(abs(difference), 2 * noise + 2e-6)

    def test_the_challenge(self) -> None:
        """It is answered at once."""
        address = place().broker.address
        found: dict[str, list[float]] = {"ann": [], "bob": []}
        for number, user in enumerate(in_random_order(2 * ATTEMPTS)):
            attempt = Attempt(address)
            _, seconds = attempt.ask(Authenticate(MECHANISMS[0], f"n,,n={user},r=nonce{number}".encode()))
            found[user].append(seconds)
            attempt.socket.close()
        self.compare("the challenge of SCRAM", Times(found["ann"], found["bob"]))

    def test_the_refusal(self) -> None:
        """It comes after the same delay."""
        address = place().broker.address

        def attempt(number: int, user: str) -> tuple[str, float]:
            connection, exchange = Attempt(address), ClientExchange(MECHANISMS[0], user, "wrong")
            challenge, _ = connection.ask(Authenticate(MECHANISMS[0], exchange.first()))
            answer, seconds = connection.ask(Authenticate(MECHANISMS[0], exchange.answer(challenge.data)))
            connection.socket.close()
            self.assertEqual(answer.error, 118)
            return user, seconds

        self.compare("the refusal of SCRAM", self.shared(attempt))

    def test_the_refusal_of_a_page(self) -> None:
        """A password is hashed before it."""
        pages = place().http

        def attempt(number: int, user: str) -> tuple[str, float]:
            request = Request(f"{pages}/health", headers={"Authorization": basic(user, f"wrong {number}")})
            begun = time.perf_counter()
            try:
                urlopen(request, timeout=PATIENCE).close()
            except HTTPError as error:
                error.close()
            return user, time.perf_counter() - begun

        self.compare("the refusal of a page", self.shared(attempt, together=2))

    def shared(self, attempt: Any, together: int = TOGETHER) -> Times:
        """Make attempts on threads, and return their times."""
        found: dict[str, list[float]] = {"ann": [], "bob": []}
        count = min(2 * ATTEMPTS, 30 * together)
        with ThreadPoolExecutor(together) as threads:
            for user, seconds in threads.map(attempt, range(count), in_random_order(count)):
                found[user].append(seconds)
        return Times(found["ann"], found["bob"])
