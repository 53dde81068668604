"""Dead letters by real processes: the example is killed, and the broker too; then the letters are replayed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from logd.protocol.loops import decode_set
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.requests.create_delete_topic import CreateTopic
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from logd.testing.processes.python_process import run_python
from tests.integration.peers import PATIENCE, BrokerTestCase

ROOT = Path(__file__).resolve().parents[3]
PARTITIONS, ORDERS = 4, 60
#: The environment variable of longer runs: how often the example is killed.
KILLS = int(os.environ.get("LOGD_TEST_ROUNDS", "2"))


def order(partition: int, number: int) -> Message:
    """Return an order; each tenth one has no count, which the example cannot handle."""
    item = f"item-{partition}-{number}"
    value = {"item": item} if number % 10 == 3 else {"item": item, "count": 1}
    return Message(
        json.dumps(value).encode(), key=item.encode(), timestamp=1000 + number, headers=(("shop", b"\xff\x00"),)
    )


class DeadLetterTests(BrokerTestCase):
    """``examples/orders.py`` and ``logd dead-letters`` against a broker that is killed as well."""

    def setUp(self) -> None:
        """Fill a topic of four partitions."""
        super().setUp()
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT), "LOGD_ZOOKEEPER": self.broker.coordination}
        peer = self.connect()
        self.assertEqual(peer.ask(CreateTopic("orders", PARTITIONS, {})).error, 0)
        self.orders = {number: [order(number, each) for each in range(ORDERS)] for number in range(PARTITIONS)}
        for number, orders in self.orders.items():
            data = MessageSet(orders).encode()
            answer = peer.ask(ProduceAck(-1, 0, (ProducePart("orders", number, 0, False, data),)))
            self.assertEqual(answer.parts[0].error, 0)
        every = [each for orders in self.orders.values() for each in orders]
        self.poison = {each.key for each in every if b"count" not in (each.payload or b"")}
        self.good = {f"1 {(each.key or b'').decode()}" for each in every if each.key not in self.poison}

    def example(self) -> subprocess.Popen[str]:
        """Begin the example. One that still runs after PATIENCE seconds is killed, so that reading it ends."""
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "examples" / "orders.py")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
        )
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        guard = threading.Timer(PATIENCE, process.kill)
        guard.start()
        self.addCleanup(guard.cancel)
        return process

    def logd(self, *arguments: str) -> list[Any]:
        """Run a command that prints JSON; return its objects."""
        done = run_python(
            [sys.executable, "-m", "logd", *arguments, "--json"],
            capture_output=True,
            timeout=PATIENCE,
            env={**self.environment, "LOGD_BROKER": self.broker.address},
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def read(self, process: subprocess.Popen[str], most: int, handled: set[str]) -> None:
        """Read up to ``most`` lines of the example, or until all good orders are handled."""
        assert process.stdout is not None and process.stderr is not None
        for _ in range(most):
            if handled == self.good:
                return
            line = process.stdout.readline()
            if not line:
                self.fail(f"the example has ended: {process.stderr.read()}")
            handled.add(line.strip())

    def end(self, process: subprocess.Popen[str], handled: set[str]) -> None:
        """Kill the example, and read what it had printed: those orders may count as handled, and never come again."""
        assert process.stdout is not None
        process.kill()
        handled.update(process.stdout.read().splitlines())

    def test_no_order_is_lost_by_kills_and_each_that_fails_is_a_letter(self) -> None:
        """Every good order is handled, every bad one stored as it was; replayed, each comes back at least once."""
        handled: set[str] = set()
        for kill in range(KILLS):
            process = self.example()
            self.read(process, 20 + 13 * kill, handled)
            if kill == 0:  # the broker dies under it, and comes back
                self.broker.kill()
                self.broker.start()
                self.read(process, 20, handled)
            self.end(process, handled)
        process = self.example()
        self.read(process, 10**6, handled)
        self.end(process, handled)
        self.assertEqual(handled, self.good)
        listed = self.logd("dead-letters", "list", "orders.dead")
        self.assertEqual(
            {(each["error"], each["attempts"], each["group"], each["topic"]) for each in listed},
            {("KeyError", 3, "kitchen", "orders")},
        )
        self.assertEqual(len({(each["partition"], each["id"]) for each in listed}), len(self.poison))
        before = {number: len(self.content("orders", number)) for number in range(PARTITIONS)}
        (first,) = self.logd("dead-letters", "replay", "orders.dead", "--yes")
        (second,) = self.logd("dead-letters", "replay", "orders.dead", "--yes")
        self.assertEqual((first["replayed"], second["replayed"]), (len(listed), 0))
        again = {
            message.key: message
            for number, begin in before.items()
            for message in decode_set(self.content("orders", number)[begin:], 0, partition=number).messages
        }
        originals = {each.key: each for orders in self.orders.values() for each in orders}
        self.assertEqual(again, {key: originals[key] for key in self.poison})
        for key, message in again.items():
            self.assertTrue((key or b"").startswith(b"item-%d-" % message.partition), "it is back in its partition")
