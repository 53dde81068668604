"""Tests of the lags that the console shows of all groups."""

from __future__ import annotations

from typing import Any, cast

from attrs import frozen
from twisted.internet.defer import Deferred, succeed

from logd.client.consumer.consumer import Consumer
from logd.coord import paths
from logd.coord.interfaces import ICoordination
from logd.web.console.group_lags import GroupLags
from tests.web.console.test_console_pages import PagesTestCase
from tests.web.console.test_elsewhere import FakeAdmin


@frozen
class TreeWithPast:
    """A tree that still lists a group which is deleted by now."""

    tree: ICoordination

    def get_children(self, path: str) -> Deferred[list[str]]:
        """Add the group to those that there are."""
        there = self.tree.get_children(path)
        return there.addCallback(lambda names: [*names, "past"]) if path == paths.CONSUMERS else there

    def exists(self, path: str) -> Deferred[Any]:
        """Return nothing for the group that is gone."""
        return succeed(None) if path == paths.group("past") else self.tree.exists(path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tree, name)


class CountingTree:
    """A tree that counts how often it is asked which groups there are."""

    def __init__(self, tree: ICoordination) -> None:
        self.tree = tree
        self.listed = 0

    def get_children(self, path: str) -> Deferred[list[str]]:
        """Count."""
        self.listed += path == paths.CONSUMERS
        return self.tree.get_children(path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tree, name)


class IdleConsumer:
    """A consumer that reads nothing."""

    async def close(self) -> None:
        """Nothing is open."""


class GroupLagTests(PagesTestCase):
    """Two groups without members."""

    def test_a_group_that_is_deleted_meanwhile_hides_no_other(self) -> None:
        """Groups come and go while their lags are read."""
        client = self.access.client
        for name in ("one", "two"):
            client.create(paths.group(name), makepath=True)
        self.settle()
        tree, consumer = cast(ICoordination, TreeWithPast(client)), cast(Consumer, IdleConsumer())
        lags = GroupLags(self.clock, lambda: tree, cast(Any, FakeAdmin), lambda: consumer)
        reading = Deferred.fromCoroutine(lags.all())
        self.settle()
        self.assertEqual(sorted(row.name for row in self.successResultOf(reading)), ["one", "two"])

    def test_many_who_watch_have_the_lags_read_once(self) -> None:
        """Reading asks the tree for all groups, and brokers for all their partitions."""
        tree, consumer = CountingTree(self.access.client), cast(Consumer, IdleConsumer())
        lags = GroupLags(self.clock, lambda: cast(ICoordination, tree), cast(Any, FakeAdmin), lambda: consumer)
        reading = [Deferred.fromCoroutine(lags.all()) for _ in range(3)]
        self.settle()
        for each in reading:
            self.successResultOf(each)
        self.assertEqual(tree.listed, 1)
