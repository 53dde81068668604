"""Tests of blocking clients in a child of ``os.fork``, which has no thread that would serve them."""

from __future__ import annotations

import subprocess
import sys

from twisted.trial.unittest import TestCase


class ForkedClientTests(TestCase):
    """A child goes on to use the clients of its parent."""

    def test_each_call_is_refused(self) -> None:
        """None takes a message that nothing would ever send, and none waits for ever."""
        found = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, timeout=120, check=True)
        self.assertEqual(found.stdout.split(), ["refused"] * 3004, found.stderr)


FORKING = """
import os
import signal
from logd.client.blocking import Consumer, Producer

producer = Producer("127.0.0.1:1")
(stream,) = Consumer("127.0.0.1:1").create_message_streams("t", 1)
under_way = producer.send("t", b"0")
child = os.fork()
if not child:
    signal.alarm(60)
    calls = [lambda: producer.publish("t", b"1"), lambda: producer.send("t", b"1")] * 1500
    for call in (*calls, producer.ready, under_way.wait, stream.get, lambda: next(iter(stream))):
        try:
            call()
            print("taken")
        except RuntimeError:
            print("refused")
    print(end="", flush=True)
    os._exit(0)
os.waitpid(child, 0)
os._exit(0)
"""
