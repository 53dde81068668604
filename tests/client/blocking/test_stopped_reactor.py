"""Tests of blocking clients after the reactor was stopped, which never answers any more."""

from __future__ import annotations

import subprocess
import sys

from twisted.trial.unittest import TestCase


class StoppedReactorTests(TestCase):
    """Clients of a broker that is away, in processes of their own."""

    def outcomes(self, program: str) -> list[str]:
        """Return the words that a program has written until it ended, in order."""
        found = subprocess.run(
            [sys.executable, "-c", COMMON + program], capture_output=True, text=True, timeout=120, check=False
        )
        self.assertEqual((found.returncode, found.stderr), (0, ""))
        return found.stdout.split()

    def test_each_call_is_refused(self) -> None:
        """None takes a message that nothing would ever send, and none waits for ever; what closes has nothing to do."""
        self.assertEqual(self.outcomes(CALLS_BEHIND), ["refused"] * 13 + ["ended"] * 4)

    def test_threads_that_wait_are_woken(self) -> None:
        """The reactor waits for the threads of its pool before the process ends, and takes no second Ctrl-C."""
        self.assertEqual(self.outcomes(WAITING), ["refused"] * 8)

    def test_clients_begun_after_the_applications_reactor(self) -> None:
        """A reactor runs once in a process."""
        self.assertEqual(self.outcomes(BEGUN_BEHIND), ["refused"] * 2)


COMMON = """
import signal
import threading
from logd.client.blocking import Consumer, Producer
from logd.errors import ClientClosed

signal.alarm(60)
AWAY = "127.0.0.1:1"


def words(calls):
    for call in calls:
        try:
            call()
            yield "ended"
        except ClientClosed as error:
            assert "reactor was stopped" in str(error), error
            yield "refused"
"""

CALLS_BEHIND = """
def fail(message):
    raise LookupError

producer = Producer(AWAY)
consumer = Consumer(AWAY)
(stream,) = consumer.create_message_streams("t", 1)
under_way = producer.send("t", b"0")
from twisted.internet import reactor
(thread,) = (each for each in threading.enumerate() if each.name == "logd-reactor")
reactor.callFromThread(reactor.stop)
thread.join()
refused = (
    lambda: Producer(AWAY),
    lambda: Consumer(AWAY),
    lambda: producer.send("t", b"1"),
    lambda: producer.publish("t", b"1"),
    producer.ready,
    producer.flush,
    under_way.wait,
    stream.get,
    lambda: next(iter(stream)),
    lambda: stream.handle(fail),
    lambda: stream.seek(0, 0),
    stream.end_positions,
    consumer.commit,
)
for word in words((*refused, stream.close, consumer.close, lambda: consumer.close(5.0), producer.close)):
    print(word)
"""

WAITING = r"""
from twisted.internet import reactor
from twisted.internet.threads import deferToThread

def work(call):
    for word in words((call,)):
        print(word + "\n", end="")  # one write, as others write too

def send_many():
    with Producer(AWAY, buffer_bytes=100_000) as producer:
        producer.send("t", b"x" * 100_000)
        while True:
            producer.send("t", b"x")

def send_large():
    with Producer(AWAY, buffer_bytes=100_000) as producer:
        while True:
            producer.send("t", b"x" * 100_000)

def publish():
    with Producer(AWAY, buffer_bytes=100_000) as producer:
        while True:
            producer.publish("t", b"x" * 50_000)
            producer.ready()

def read():
    with Consumer(AWAY) as consumer:
        (stream,) = consumer.create_message_streams("t", 1)
        for message in stream:
            print(message)

def begin():
    producer = Producer(AWAY)
    consumer = Consumer(AWAY)
    (stream,) = consumer.create_message_streams("t", 1)
    calls = [producer.send("t", b"1").wait, producer.flush, stream.get, stream.end_positions]  # flushed: that message
    for call in (*calls, send_many, send_large, publish, read):
        deferToThread(work, call).addErrback(print)
    reactor.callFromThread(reactor.callLater, 1.0, reactor.stop)

reactor.suggestThreadPoolSize(20)
reactor.callWhenRunning(deferToThread, begin)
reactor.run()
"""

BEGUN_BEHIND = """
from twisted.internet import reactor
reactor.callWhenRunning(reactor.stop)
reactor.run()
for word in words((lambda: Producer(AWAY), lambda: Consumer(AWAY))):
    print(word)
"""
