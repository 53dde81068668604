"""A random walk over all requests: some clients at a time, who send many at once, hang up, and lose the tree.

LOGD_FUZZ_SEED=7 python -m twisted.trial tests.broker.kafka.every_request.test_random_walk
"""

from __future__ import annotations

import gc
import os
from collections import deque
from collections.abc import Callable
from random import Random
from struct import pack, unpack_from
from typing import Any

from attrs import define, field
from twisted.logger import LogLevel, formatEvent

from logd.broker.kafka.fetches import incremental_fetches
from logd.deferreds import fair_turns
from logd.protocol.kafka.apis import APIS, KafkaApi
from tests.broker.kafka.every_request.answers import AnswerReader
from tests.broker.kafka.every_request.random_requests import RequestWriter, is_in, schema
from tests.broker.kafka.every_request.test_fuzzing import record_sets
from tests.broker.kafka.groups.clients import GroupsTestCase
from tests.broker.kafka.rig import KafkaPeer
from tests.broker.kafka.test_producing import wire

SEED = int(os.environ.get("LOGD_FUZZ_SEED", "1"))
STEPS = 800
_CLIENTS = 3
_JOIN_GROUP = 11
#: Produce, Fetch, ListOffsets, and those about groups: they wait for each other, and are sent most.
_HOT = (0, 1, 2, 8, 9, 11, 12, 13, 14)
#: Those that would forbid the rest: SaslHandshake, and changes of rules, quotas and users.
_LEFT_OUT = (17, 30, 31, 49, 51)
_INTEGERS: dict[str, tuple[str, tuple[int, ...]]] = {
    "Acks": (">h", (1, 1, -1)),
    "SessionTimeoutMs": (">i", (10_000,)),
    "RebalanceTimeoutMs": (">i", (0, 1000, 60_000)),
    "SessionEpoch": (">i", (-1, 0, 0, 1, 2, 3)),
    "SessionId": (">i", (0, 1, 2, 3, 4)),
    "MaxWaitMs": (">i", (0, 100, 500)),
    "MinBytes": (">i", (0, 1, 1000)),
    "MaxBytes": (">i", (0, 1, 100, 1 << 20)),
    "PartitionMaxBytes": (">i", (0, 1, 100, 1 << 20)),
    "FetchOffset": (">q", (0, 0, 5, 100, 300, -1)),
    "CommittedOffset": (">q", (0, 5, 100, -1)),
    "PartitionIndex": (">i", (0, 0, 1, 2)),
    "Partition": (">i", (0, 0, 1, 2)),
    "Index": (">i", (0, 0, 1, 2)),
    "GenerationId": (">i", (-1, 0, 1, 2, 3)),
    "GenerationIdOrMemberEpoch": (">i", (-1, 0, 1, 2, 3)),
}


class _LikelyWriter(RequestWriter):
    """Writes requests about few things, so that they meet."""

    #: The ids of members that were given.
    members: tuple[str, ...] = ()

    def _field(self, field: dict[str, Any]) -> bytes:
        name = field["name"]
        if name in _INTEGERS and field["type"] in ("int16", "int32", "int64"):
            layout, values = _INTEGERS[name]
            return pack(layout, self._random.choice(values))
        if name == "ProtocolType":
            return RequestWriter._sized(self, b"consumer", ">h")
        if name == "MemberId" and field["type"] == "string":
            return RequestWriter._sized(self, self._random.choice(("", "", *self.members)).encode(), ">h")
        return RequestWriter._field(self, field)

    def _sized(self, value: bytes | None, layout: str) -> bytes:
        if value is not None and layout == ">h" and value != b"range":
            value = self._random.choice((b"t", b"u", b"g"))
        return RequestWriter._sized(self, value, layout)


@define(eq=False)
class _Client:
    """One connection, and its requests without an answer, in order."""

    peer: KafkaPeer
    waiting: deque[tuple[KafkaApi, int, int]] = field(factory=deque)
    _received: bytearray = field(factory=bytearray)

    def answers(self) -> list[tuple[KafkaApi, int, bytes]]:
        """Take the answers that have come, each whole, and in the order of the requests."""
        self._received += self.peer.received()
        found = []
        while len(self._received) >= 4 and len(self._received) >= (size := 4 + unpack_from(">i", self._received)[0]):
            frame = bytes(self._received[:size])
            del self._received[:size]
            api, version, number = self.waiting.popleft()
            assert unpack_from(">i", frame, 4)[0] == number, (api.name, version)
            assert AnswerReader(api.name, version, frame).read() == size, (api.name, version)
            found.append((api, version, frame))
        return found


class RandomWalkTests(GroupsTestCase):
    """Topics "t" and "u", and groups of the same names, which clients use as they like."""

    log_options = {"message_bytes": 100_000, "segment_bytes": 2000}  # noqa: RUF012

    def test_everything_is_answered_and_nothing_is_left(self) -> None:
        """Each request whose connection lasts has its answer, in order; of the others nothing is in memory."""
        self.patch(incremental_fetches, "LEAST_PARTS", 1)
        for seed, turn in ((SEED, fair_turns.TURN_SECONDS), (SEED + 1, 0.0)):
            self.patch(fair_turns, "TURN_SECONDS", turn)
            self.walk(Random(seed), f"seed {seed}")

    def walk(self, random: Random, words: str) -> None:
        """Take the steps, and let all clients go."""
        self.clients = [_Client(self.kafka()) for _ in range(_CLIENTS)]
        self.members: list[str] = []
        steps: dict[Callable[[Random], None], int] = {
            self.send: 86, self.pass_time: 8, self.hang_up: 3, self.lose_or_reach_tree: 2, self.make_topics: 1
        }  # fmt: skip
        for _ in range(STEPS):
            (step,) = random.choices(list(steps), list(steps.values()))
            step(random)
            if random.random() < 0.5:
                self.settle()
            self.take_answers(words)
        self.access.client.link.reachable = True
        self.run_for(200.0)
        self.take_answers(words)
        self.assertEqual([[*each.waiting] for each in self.clients], [[]] * _CLIENTS, words)
        for each in self.clients:
            each.peer.lose()
        self.peers.clear()
        self.run_for(700.0)
        gc.collect()
        groups, counters = self.broker.kafka_groups.get(), self.broker.counters
        self.assertEqual((dict(groups.groups), groups.memory.used), ({}, 0), words)
        self.assertEqual((counters.session_parts, counters.waiting_parts, self.fetch_work().memory.held), (0, 0, 0))
        self.take_answers(words)

    def send(self, random: Random) -> None:
        """Send a request."""
        kinds = [api for api in APIS.values() if api.key not in _LEFT_OUT]
        api = APIS[random.choice(_HOT)] if random.random() < 0.6 else random.choice(kinds)
        version = random.choice(api.versions)
        records = record_sets()[:2] + tuple(wire(b"v", producer=(7, number % 2, number)) for number in range(4))
        flexible = is_in(version, schema(api.name)["flexibleVersions"])
        writer = _LikelyWriter(random, api.name, version, records, flexible)
        writer.members = tuple(self.members[-10:])
        data = writer.write()
        client = random.choice(self.clients)
        client.waiting.append((api, version, unpack_from(">i", data, 8)[0]))
        client.peer.send_bytes(data)

    def pass_time(self, random: Random) -> None:
        """Let up to five seconds pass."""
        self.run_for(random.choice((0.1, 0.1, 1.0, 5.0)))

    def hang_up(self, random: Random) -> None:
        """Lose a connection."""
        random.choice(self.clients).peer.lose()

    def lose_or_reach_tree(self, random: Random) -> None:
        """Cut the broker off from the tree, or let it reach the tree again."""
        link = self.access.client.link
        link.reachable = not link.reachable
        if not link.reachable:
            link.cut()

    def make_topics(self, random: Random) -> None:
        """Make the topics that were deleted."""
        for topic in ("t", "u"):
            self.broker.administration.create(topic, 2, {}).addErrback(lambda _: None)

    def take_answers(self, words: str) -> None:
        """Check the answers, and the log; connect anew the clients that have no connection."""
        for place, client in enumerate(self.clients):
            for api, version, frame in client.answers():
                if api.key == _JOIN_GROUP:
                    self.members.append(_member_id(version, frame))
            if client.peer.lost and client.peer in self.peers:
                self.peers.remove(client.peer)
                self.clients[place] = _Client(self.kafka())
        wrong = [formatEvent(each) for each in self.events.events if each["log_level"] >= LogLevel.error]
        self.assertEqual((wrong, self.flushLoggedErrors()), ([], []), words)
        self.events.events.clear()

    def run_for(self, seconds: float) -> None:
        """Let time pass, for the tree too."""
        for _ in range(round(seconds * 10) if seconds < 10 else round(seconds)):
            step = 0.1 if seconds < 10 else 1.0
            self.clock.advance(step)
            self.tree_clock.advance(step)
            self.settle()


def _member_id(version: int, frame: bytes) -> str:
    """Return the member id in an answer to JoinGroup."""
    at = 8 + (4 if version >= 2 else 0) + 6
    text = b""
    for _ in range(3):  # the assignor, the leader, the member
        (length,) = unpack_from(">h", frame, at)
        text = frame[at + 2 : at + 2 + length]
        at += 2 + length
    return text.decode()
