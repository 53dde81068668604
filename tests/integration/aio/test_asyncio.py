"""logd.aio with a real broker: tasks, back-pressure, lost brokers, TLS, and what event loops leave behind."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest import skipUnless

from logd.aio import Consumer, Producer
from logd.errors import BrokerUnavailable, DeliveryFailed
from logd.testing.processes.broker import BrokerProcess, free_port
from logd.testing.processes.python_process import run_python
from tests.aio.loops import LoopTestCase
from tests.integration.clients.test_tls_clients import make_certificate
from tests.integration.peers import PATIENCE

ROOT = Path(__file__).resolve().parents[3]


class BrokerTestCase(LoopTestCase):
    """One broker with its own coordination tree."""

    options: tuple[str, ...] = ()

    def setUp(self) -> None:
        """Start the broker."""
        super().setUp()
        self.broker = BrokerProcess(os.path.abspath(self.mktemp()), self.options)
        self.broker.start()
        self.addCleanup(self.broker.kill)


class TaskTests(BrokerTestCase):
    """Tasks of this process's event loop, in debug mode."""

    def test_a_task_that_is_cancelled_while_it_waits_loses_no_message(self) -> None:
        """Each message comes to the task that waits, or to the one behind it: to exactly one."""

        async def main() -> None:
            async with Producer(self.broker.address) as producer, Consumer(self.broker.address) as consumer:
                stream, found = consumer.stream("t"), list[bytes | None]()
                for number in range(50):
                    task = asyncio.create_task(stream.get())
                    await asyncio.sleep(0)
                    sent = producer.send("t", b"%d" % number)
                    if number % 2:  # so that the message comes at about the same time as the cancellation
                        await sent
                    for _ in range(number // 5):
                        await asyncio.sleep(0)
                    task.cancel()
                    await asyncio.wait([task])
                    found.append((await stream.get() if task.cancelled() else task.result()).payload)
                self.assertEqual(found, [b"%d" % number for number in range(50)])

        self.run_loop(main)

    def test_a_producer_is_held_back_while_the_broker_does_not_answer(self) -> None:
        """Its memory stays within the bound; all arrives once the broker goes on."""

        async def main() -> None:
            async with Producer(self.broker.address, buffer_bytes=1 << 20) as producer:
                await producer.send("t", b"first")
                self.broker.pause()
                sent = 0

                async def publish() -> None:
                    nonlocal sent
                    while sent < 5000:
                        sent += 1
                        if not producer.publish("t", b"x" * 1000):
                            await producer.ready()

                task = asyncio.create_task(publish())
                while producer.has_room:
                    await asyncio.sleep(0)
                held, before = producer.buffered_bytes, sent
                await asyncio.sleep(0)
                self.assertEqual((producer.buffered_bytes, sent), (held, before))
                self.assertLess(held, (1 << 20) + 10_000)
                self.assertLess(sent, 2000)
                self.broker.resume()
                await task
                await producer.flush()
            async with Consumer(self.broker.address) as consumer:
                stream, count = consumer.stream("t"), 0
                async for batch in stream.batches(until=await stream.end_positions()):
                    count += len(batch.messages)
                self.assertEqual(count, 5001)

        self.run_loop(main)

    def test_clients_wait_for_a_broker_that_comes_back(self) -> None:
        """A send and a stream go on; one that may not wait fails with the cause."""

        async def main() -> None:
            async with Producer(self.broker.address) as producer, Consumer(self.broker.address) as consumer:
                stream = consumer.stream("t")
                await producer.send("t", b"before")
                self.assertEqual((await stream.get()).payload, b"before")
                await asyncio.to_thread(self.broker.kill)
                async with Producer(self.broker.address, delivery_timeout=3.0) as hasty:
                    with self.assertRaises(DeliveryFailed) as caught:
                        await hasty.send("t", b"lost")
                    self.assertIsInstance(caught.exception.__cause__, BrokerUnavailable)
                    self.assertIn("Connection refused", str(caught.exception.__cause__))
                sending = producer.send("t", b"after")
                await asyncio.to_thread(self.broker.start)
                await sending
                self.assertEqual((await stream.get()).payload, b"after")

        self.run_loop(main)

    def test_large_messages_pass_in_both_directions(self) -> None:
        """More than a socket's buffers hold, so that writing pauses and goes on."""

        async def main() -> None:
            payloads = [os.urandom(900_000) for _ in range(20)]
            async with Producer(self.broker.address) as producer:
                await asyncio.gather(*[producer.send("t", payload) for payload in payloads])
            async with Consumer(self.broker.address) as consumer, consumer.stream("t") as stream:
                for payload in payloads:
                    self.assertEqual((await stream.get()).payload, payload)

        self.run_loop(main)


class TlsLoopTests(LoopTestCase):
    """A broker that accepts only TLS."""

    def test_messages_come_back_over_tls(self) -> None:
        """The folder of trusted certificates is that of Twisted's endpoints; a client without trust is refused."""
        folder = Path(os.path.abspath(self.mktemp()))
        trusted = folder / "trusted"
        trusted.mkdir(parents=True)
        make_certificate(folder)
        shutil.copy(folder / "cert.pem", trusted)
        port = free_port()
        listen = f"ssl:{port}:privateKey={folder}/key.pem:certKey={folder}/cert.pem:interface=127.0.0.1"
        broker = BrokerProcess(str(folder / "data"), ("--listen", listen), port=port)
        broker.start()
        self.addCleanup(broker.kill)

        async def main() -> None:
            address = f"tls:localhost:{port}:trustRoots={trusted}"
            payloads = [os.urandom(500_000) for _ in range(10)]
            async with Producer(address) as producer, Consumer(address) as consumer:
                await asyncio.gather(*[producer.send("t", payload) for payload in payloads])
                stream = consumer.stream("t")
                for payload in payloads:
                    self.assertEqual((await stream.get()).payload, payload)
            # To read the system's authorities and shake hands takes a busy machine a while.
            async with Producer(f"tls:localhost:{port}", delivery_timeout=5.0) as stranger:
                with self.assertRaises(DeliveryFailed) as caught:
                    await stranger.send("t", b"")
                self.assertIn("certificate verify failed", str(caught.exception.__cause__))

        self.run_loop(main)


class TwiceTests(BrokerTestCase):
    """``asyncio.run`` twice in one process; see twice.py."""

    def twice(self, kind: str) -> dict[str, Any]:
        """Run the program."""
        command = [sys.executable, "-m", "tests.integration.aio.twice", self.broker.address, self.tree, kind]
        done = run_python(
            command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, timeout=2 * PATIENCE
        )
        self.errors = done.stderr.decode()
        self.assertEqual(done.returncode, 0, self.errors)
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    @property
    def tree(self) -> str:
        """The address of the broker's own tree."""
        return f"127.0.0.1:{self.broker.coordination_port}"

    def assert_twice(self, kind: str) -> None:
        """Both runs did the same, and left nothing behind."""
        found = self.twice(kind)
        first, second = found["results"]
        self.assertEqual(first["all"], ["0-a", "0-b"])
        self.assertEqual(second["all"], ["0-a", "0-b", "1-a", "1-b"])
        self.assertEqual([first["group"], second["group"]], [["0-a", "0-b"], ["1-a", "1-b"]])
        self.assertEqual([first["told"], second["told"]], [["+", "1 revoked"]] * 2)
        before, *after = found["resources"]
        self.assertEqual(after, [before, before])
        self.assertFalse(before["reactor"])
        self.assertIn("was still open when its event loop ended", self.errors)

    def test_asyncio_runs_twice_in_one_process(self) -> None:
        """No reactor is installed; sockets, threads and signal handlers are afterwards what they were."""
        self.assert_twice("asyncio")

    @skipUnless(find_spec("uvloop"), "uvloop is an extra: logd[test]")
    def test_uvloop_runs_twice_in_one_process(self) -> None:
        """The same under uvloop."""
        self.assert_twice("uvloop")
