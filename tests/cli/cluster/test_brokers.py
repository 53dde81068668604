"""Tests of logd.cli.cluster.brokers: the columns of the list."""

from __future__ import annotations

import click
from twisted.trial.unittest import SynchronousTestCase

from logd.cli.cluster.brokers import BrokerIdParameter, broker_table
from logd.coord.registries.brokers import BrokerInfo

ONE = BrokerInfo(1, "h", 6667, "i", {"t": (0, 2), "u": (0,)})
TWO = BrokerInfo(2, "h", 6668, "j", {}, (("k", 9092),))


class BrokerIdParameterTests(SynchronousTestCase):
    """``BrokerIdParameter``."""

    def test_an_id_or_a_refusal_that_says_what_one_is(self) -> None:
        """An address, or a name, is no id."""
        read = BrokerIdParameter().convert
        self.assertEqual([read(text, None, None) for text in ("0", "12", 3)], [0, 12, 3])
        for text in ("x", "-1", "", "1_0", "localhost:6667"):
            refusal = self.assertRaises(click.BadParameter, read, text, None, None)
            expected = f"{text!r} is no id of a broker, which is a whole number such as 2; logd brokers list shows them"
            self.assertEqual(refusal.message, expected)


class BrokerTableTests(SynchronousTestCase):
    """``broker_table``."""

    def test_a_drained_broker_is_marked(self) -> None:
        """Otherwise nothing would show why it leads nothing; where none is drained there is no such column."""
        self.assertEqual(
            broker_table([ONE], {7}),
            (
                ["id", "host", "port", "topics", "partitions", "instance"],
                [
                    (1, "h", "6667", 2, 3, "i"),
                ],
            ),
        )
        head, rows = broker_table([ONE, TWO], {2})
        self.assertEqual(head[6:], ["kafka", "state"])
        self.assertEqual([row[6:] for row in rows], [("", ""), ("k:9092", "drained")])
        head, rows = broker_table([ONE], {1})
        self.assertEqual((head[6:], rows[0][6:]), (["state"], ("drained",)))
