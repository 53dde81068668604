"""Tests of the first positions of a group that begins elsewhere than at the start of its logs."""

from __future__ import annotations

from logd.errors import TopicAuthorizationFailed
from logd.protocol.loops import encode_set
from logd.protocol.message import Message
from tests.client.groups import Application, ClientGroupTestCase


class FirstPositionsTests(ClientGroupTestCase):
    """A group that begins at the ends of many partitions."""

    def test_many_first_positions_are_stored_together(self) -> None:
        """Each commit looks at every partition: one for each would take minutes where there are thousands."""
        self.topic("wide", 200, 1)
        app = Application(self, "wide", start="latest", commit_interval=0.0)
        self.run_for(2.0)
        self.assertEqual(len(app.streams[0].partitions()), 200)
        group = app.consumer.group
        assert group is not None
        self.assertLess(group.counts.commits, 10)
        for number, log in self.broker.logs["wide"].items():
            self.assertEqual(int(self.committed(number, "wide")), log.end)
            log.data += encode_set([Message(b"wide-%d-later" % number)])
        app.read()
        self.run_for(1.0)
        self.assertEqual(sorted(app.payloads()), sorted(b"wide-%d-later" % number for number in range(200)))

    def test_a_first_position_that_cannot_be_stored_is_stored_later(self) -> None:
        """The tree is away when it is found; nothing is handed over before."""
        app = Application(self, start="latest", commit_interval=0.0)
        self.broker.delay = 0.3
        self.run_for(0.25)
        app.coordination.link.reachable = False
        app.coordination.link.cut()
        self.run_for(1.0)
        self.assertEqual(app.streams[0].partitions(), ())
        app.coordination.link.reachable = True
        self.run_for(4.0)
        self.assertEqual(len(app.streams[0].partitions()), 4)
        for number, log in self.broker.logs["t"].items():
            self.assertEqual(int(self.committed(number)), log.end)

    def test_an_error_that_trying_again_does_not_cure_fails_the_stream(self) -> None:
        """Nothing is stored; the next rebalance looks for the positions again."""
        self.broker.topic_errors["t"] = TopicAuthorizationFailed.code
        app = Application(self, start="latest", commit_interval=0.0)
        self.run_for(1.0)
        (stream,) = app.streams
        self.failureResultOf(stream.get(), TopicAuthorizationFailed)
        self.successResultOf(app.consumer.commit())
        self.assertEqual([self.committed(number) for number in range(4)], [b""] * 4)
        self.broker.topic_errors.clear()
        other = Application(self, start="latest")
        self.run_for(3.0)
        self.assertEqual([len(each.streams[0].partitions()) for each in (app, other)], [2, 2])
        for number, log in self.broker.logs["t"].items():
            self.assertEqual(int(self.committed(number)), log.end)
            log.data += encode_set([Message(b"t-%d-later" % number)])
        for each in (app, other):
            each.read()
        self.run_for(1.0)
        self.assertEqual(sorted(app.payloads() + other.payloads()), [b"t-%d-later" % number for number in range(4)])

    def test_a_stream_that_failed_for_want_of_a_first_position_goes_on_where_it_is_sought(self) -> None:
        """As after other errors."""
        self.topic("one", 1, 50)
        self.broker.topic_errors["one"] = TopicAuthorizationFailed.code
        app = Application(self, "one", start="latest", commit_interval=0.0)
        self.run_for(1.0)
        (stream,) = app.streams
        self.failureResultOf(stream.get(), TopicAuthorizationFailed)
        self.broker.topic_errors.clear()
        stream.seek(0, 0)
        self.run_for(1.0)
        self.assertEqual(self.successResultOf(stream.get()).payload, b"one-0-0000")
