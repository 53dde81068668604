"""A member of a group, in a process of its own, that joins and leaves on command and reports its partitions.

    python -m logd.bench.peers.group_member ZOOKEEPER GROUP TOPIC SESSION_SECONDS

Reads lines: ``join``, ``leave``; ends with its standard input. Writes ``ready`` once, then a line at each change: the
time (of CLOCK_MONOTONIC, which all processes of a machine share) and the number of partitions delivered to it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

from twisted.internet.protocol import connectionDone
from twisted.internet.stdio import StandardIO
from twisted.protocols.basic import LineOnlyReceiver
from twisted.python.failure import Failure

from logd.client.consumer.consumer import Consumer
from logd.client.consumer.stream import MessageStream
from logd.topic import TopicPartition


class GroupMember(LineOnlyReceiver):
    """Joins and leaves as the lines command."""

    delimiter = b"\n"

    def __init__(self, reactor: Any, zookeeper: str, group: str, topic: str, session: float) -> None:
        self._reactor = reactor
        self._zookeeper, self._group, self._topic, self._session = zookeeper, group, topic, session
        self._consumer: Consumer | None = None
        self._streams: Sequence[MessageStream] = ()

    def connectionMade(self) -> None:  # noqa: N802
        """Report that the process is ready."""
        self.sendLine(b"ready")

    def lineReceived(self, line: bytes) -> None:  # noqa: N802
        """Join or leave."""
        if line == b"join":
            self._consumer = Consumer(
                group=self._group,
                zookeeper=self._zookeeper,
                session_timeout=self._session,
                on_assigned=self._tell,
                on_revoked=lambda _: self._tell(()),
                reactor=self._reactor,
            )
            self._streams = self._consumer.create_message_streams(self._topic, 1)
        elif line == b"leave" and self._consumer is not None:
            self._consumer.close()

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: N802
        """End, since no more commands can arrive."""
        self._reactor.stop()

    def _tell(self, partitions: Sequence[TopicPartition]) -> None:
        self.sendLine(b"%.6f %d" % (time.monotonic(), len(partitions)))


def main() -> None:
    """Run until standard input ends."""
    from twisted.internet import reactor

    zookeeper, group, topic, session = sys.argv[1:]
    StandardIO(GroupMember(reactor, zookeeper, group, topic, float(session)), reactor=reactor)
    reactor.run()


if __name__ == "__main__":
    main()
