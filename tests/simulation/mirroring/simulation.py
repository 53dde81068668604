"""One life of a mirrored topic, from a seed: two clusters and their mirrors with faults, and then all must be well."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from unittest import mock

from attrs import define, field
from twisted.python.failure import Failure

from logd.audit.event import AUDIT_TOPIC
from logd.audit.verdicts import Verdict
from logd.client.producer.pending_send import Sent
from logd.client.producer.producer import Producer
from logd.deferreds import fair_turns
from logd.mirror import set_preparation
from logd.mirror.audit import mirror_audit
from logd.mirror.positions.pairs import PositionPair
from logd.mirror.sets import keyed_sets
from logd.mirror.topic_names import PAIRS_TOPIC
from logd.protocol import slices
from logd.protocol.message import Message
from tests.simulation.mirroring.auditing import AUDIT, account_for_all, verdicts_on
from tests.simulation.mirroring.clusters import MirrorHost, Side
from tests.simulation.violation import check
from tests.simulation.world import World

TOPIC = "orders"
#: Seconds of faults, and seconds within which the target must have everything after them.
TROUBLE_SECONDS = 30.0
SETTLE_SECONDS = 60.0
MESSAGES = 150


@define(eq=False)
class MirrorSimulation:
    """Two clusters, a producer, and one or two mirrors."""

    world: World
    source: Side = field(init=False)
    target: Side = field(init=False)
    mirrors: list[MirrorHost] = field(init=False)
    random: Random = field(init=False)
    #: The numbers that the source has acknowledged, by key, in order, and those that were sent.
    acknowledged: set[int] = field(factory=set, init=False)
    sent: int = field(default=0, init=False)
    harm: dict[str, int] = field(factory=dict, init=False)
    _producer: Producer = field(init=False)
    _over: bool = field(default=False, init=False)
    _next_look: float = field(default=0.0, init=False)

    def __attrs_post_init__(self) -> None:
        world = self.world
        self.random = random = world.random("mirroring")
        partitions = random.choice([1, 2, 3])
        self.source = Side(world, "source", "source-uuid", partitions)
        # The target makes topics with the number of the source's, unless it has them already, with its own number.
        self.target = Side(world, "target", "target-uuid", random.choice([1, 2, 3]))
        self.mirrors = [
            MirrorHost(world, f"mirror-{number}", self.source, self.target) for number in range(random.choice([1, 2]))
        ]

    def run(self) -> dict[str, int]:
        """Live; return the faults made. Raises Violation."""
        world = self.world
        for side in (self.source, self.target):
            side.tree.start()
            for broker in side.brokers:
                broker.start()
        for mirror in self.mirrors:
            mirror.start()
        self._producer = Producer(
            self.source.addresses,
            reactor=world.clock,
            connect=world.network.connector("producer", None, timeout=3.0),
            random=self.random.random,
            delivery_timeout=3600.0,
            request_timeout=4.0,
            retry_delay=0.1,
            retry_delay_limit=2.0,
            format=self.random.choice(["plain", "batch"]),
            compression=self.random.choice(["none", "gzip"]),
            **AUDIT,
            server="web1",
            time_ms=lambda: round(world.clock.seconds() * 1000),
        )
        if self.random.random() < 0.3:  # perhaps with another number of partitions, so that keys decide
            first = Producer(
                self.target.addresses,
                reactor=world.clock,
                connect=world.network.connector("operator"),
                acks=-1,
                random=self.random.random,
            )
            first.send(TOPIC, Message(b"", key=b"first")).addErrback(lambda _: None)
        world.clock.callLater(0.5, self._send)
        world.clock.callLater(2.0, self._harm)
        world.run(TROUBLE_SECONDS)
        self._over = True
        world.network.heal()
        self._start_all()
        complete = world.run(SETTLE_SECONDS, self._complete)
        check(complete, "messages are missing on the target", sorted(self._missing())[:10], self.harm)
        self._check_order()
        self._check_pairs()
        complete = world.run(SETTLE_SECONDS, self._is_accounted)
        check(complete, "the audit does not account for all messages", self._verdicts(), self.harm)
        return self.harm

    def end(self) -> None:
        """Kill all processes."""
        for mirror in self.mirrors:
            mirror.kill()
        for side in (self.source, self.target):
            for broker in side.brokers:
                broker.kill()
            side.tree.kill()
        self.world.network.graveyard.append(self._producer)

    def _send(self) -> None:
        if self.sent < MESSAGES:
            count = self.random.choice([1, 1, 3, 8])
            numbers = range(self.sent, self.sent + count)
            self.sent += count
            key = b"k%d" % self.random.randrange(4)
            sending = self._producer.send(TOPIC, [Message(b"%d" % number, key=key) for number in numbers])
            sending.addCallbacks(self._stored, self._not_stored, callbackArgs=(numbers,))
            self.world.clock.callLater(1.2 * self.random.random(), self._send)

    def _stored(self, _: Sent, numbers: range) -> None:
        self.acknowledged.update(numbers)

    def _not_stored(self, failure: Failure) -> None:
        check(False, "the source did not take a message", failure.getErrorMessage())

    def _harm(self) -> None:
        """Do one of the things that befall processes and networks, and mend it a little later."""
        if self._over:
            return
        random, world = self.random, self.world
        faults: dict[str, Callable[[], object]] = {
            "mirror": random.choice(self.mirrors).kill,
            "mirror again": random.choice(self.mirrors).kill,
            "source broker": lambda: random.choice(self.source.brokers).kill(random.random() < 0.5),
            "target broker": lambda: random.choice(self.target.brokers).kill(random.random() < 0.5),
            "source tree": lambda: self.source.tree.kill(random.random() < 0.5),
            "network to the target": lambda: self._block(self.target),
            "network to the source": lambda: self._block(self.source),
            "cut": self._cut,
        }
        name = random.choice(list(faults))
        self.harm[name] = self.harm.get(name, 0) + 1
        faults[name]()
        world.clock.callLater(random.choice([0.1, 1.0, 6.0]) * random.random(), self._mend)
        world.clock.callLater(3.0 * random.random(), self._harm)

    def _cut(self) -> None:
        for wire in tuple(self.world.network.wires):
            if self.random.random() < 0.5:
                self.world.network.cut(wire)

    def _block(self, side: Side) -> None:
        for host in side.hosts:
            self.world.network.block(self.random.choice(self.mirrors).host, host)

    def _mend(self) -> None:
        self.world.network.heal()
        self._start_all()

    def _start_all(self) -> None:
        for side in (self.source, self.target):
            if side.tree.clock is None:
                side.tree.start()
            for broker in side.brokers:
                if not broker.running:
                    broker.start()
        for mirror in self.mirrors:
            if mirror.clock is None:
                mirror.start()

    def _numbers(self) -> dict[int, list[int]]:
        """Return the numbers stored on the target, by partition."""
        found = self.target.messages(TOPIC)
        return {number: [int(m.payload) for m in messages if m.payload] for number, messages in found.items()}

    def _missing(self) -> set[int]:
        return self.acknowledged - {number for numbers in self._numbers().values() for number in numbers}

    def _complete(self) -> bool:
        """Return whether the target has everything; looks at the files twice a second."""
        everything_sent = self.sent >= MESSAGES and len(self.acknowledged) == self.sent
        return everything_sent and self._looks() and not self._missing()

    def _looks(self) -> bool:
        if due := self.world.clock.seconds() >= self._next_look:
            self._next_look = self.world.clock.seconds() + 0.5
        return due

    def _is_accounted(self) -> bool:
        """Return whether the audit has each message as produced and as mirrored. Raises Violation for a false alarm."""
        return self._looks() and account_for_all(self._verdicts(), self.sent)

    def _verdicts(self) -> list[Verdict]:
        return verdicts_on(self.target.messages(AUDIT_TOPIC), self.source.uuid, self.world.clock.seconds())

    def _check_order(self) -> None:
        """Check that the first copies of each key are in the order of the source's log."""
        here: dict[bytes | None, list[int]] = {}
        there: dict[bytes | None, list[int]] = {}
        for side, found in ((self.source, here), (self.target, there)):
            for messages in side.messages(TOPIC).values():
                for message in messages:
                    if message.payload:
                        found.setdefault(message.key, []).append(int(message.payload))
        for key, numbers in here.items():
            check(
                list(dict.fromkeys(there[key])) == list(dict.fromkeys(numbers)),
                "first copies on the target are in another order",
                key,
                there[key],
                numbers,
            )

    def _check_pairs(self) -> None:
        """Check that all messages at or behind a pair's position have a copy at or behind its place on the target.

        A pair says nothing of a partition that it does not name, whose end was not known: readers begin at its start.
        """
        source, target = self.source.messages(TOPIC), self.target.messages(TOPIC)
        for message in self.target.messages(PAIRS_TOPIC).get(0, []):
            pair = PositionPair.decode(message.payload or b"")
            if pair.topic != TOPIC:
                continue
            wanted = {m.payload for m in source[pair.partition] if (m.id or 0) >= pair.position}
            copies = {
                m.payload
                for number, messages in target.items()
                for m in messages
                if (m.id or 0) >= pair.positions.get(number, 0)
            }
            check(wanted <= copies, "a pair of positions leaves messages out", pair, list(wanted - copies)[:5])


@contextmanager
def perhaps_in_steps(random: Random) -> Iterator[None]:
    """Give each step of long work a turn of its own in half of the lives, and hold few divided sets in half of them."""
    with ExitStack() as patches:
        for module, name, little in (
            (fair_turns, "TURN_SECONDS", 0.0),
            (set_preparation, "HELD_BYTES", 50),
            (set_preparation, "UNSTORED_BYTES", 100),
            (keyed_sets, "ROUND_BYTES", 50),
            (mirror_audit, "MOST_HELD_WINDOWS", 0),
            (mirror_audit, "STEP_WINDOWS", 1),
            (slices, "DECODED_MESSAGES", 2),
        ):
            if random.random() < 0.5:
                patches.enter_context(mock.patch.object(module, name, little))
        yield


def simulate_mirror(seed: int, show: Callable[[str], None] | None = None) -> dict[str, int]:
    """Run a seed; return the faults made. Raises Violation."""
    return _simulated(World(seed, show))


def digest_of(seed: int) -> str:
    """Run a seed; return the digest of its trace. Raises Violation."""
    world = World(seed)
    _simulated(world)
    return world.trace.digest


def _simulated(world: World) -> dict[str, int]:
    random = world.random("turns")
    with perhaps_in_steps(random), world.randomness(), world.observed(), world.unburied():
        simulation = MirrorSimulation(world)
        try:
            return simulation.run()
        finally:
            simulation.end()
            del simulation
