"""The contract of ICoordination's watches: see contract.py."""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred

from logd.coord.errors import NoNode
from logd.coord.interfaces import ICoordination
from logd.coord.records import Create, Delete, EventType, SetData, WatchEvent
from tests.coord.contract import Contract


class WatchesContract(Contract):
    """The watches that a change fires: once, and before anything shows the change."""

    async def assert_fires(self, watch: Deferred[WatchEvent], type_: EventType, path: str) -> None:
        """Check that the watch fires with that event."""
        event = await self.soon(watch)
        self.assertEqual((event.type, event.path), (type_, path))

    async def two(self) -> tuple[ICoordination, ICoordination, str]:
        """Return two clients and the path of a node that both know: the other's server may have been behind."""
        one, other = await self.start(), await self.make_client()
        path = await one.create(f"{self.root}/n", b"0")
        await other.sync(path)
        return one, other, path

    async def test_a_data_watch_fires_at_new_data(self) -> None:
        """The answer it was left with has the old data."""
        one, other, path = await self.two()
        answer, watch = other.get_and_watch(path)
        self.assertEqual((await answer)[0], b"0")
        await one.set(path, b"1")
        await self.assert_fires(watch, EventType.CHANGED, path)

    async def test_a_data_watch_fires_when_its_node_is_deleted(self) -> None:
        """A reader would otherwise go on with data of a node that is gone."""
        one, other, path = await self.two()
        answer, watch = other.get_and_watch(path)
        await answer
        await one.delete(path)
        await self.assert_fires(watch, EventType.DELETED, path)

    async def test_a_data_watch_ignores_children(self) -> None:
        """A child that comes or goes is told to child watches alone."""
        one, other, path = await self.two()
        answer, watch = other.get_and_watch(path)
        await answer
        await one.create(f"{path}/child")
        await one.delete(f"{path}/child")
        await self.silent(other, watch)

    async def test_a_failed_read_leaves_no_watch(self) -> None:
        """A client that reads in a loop would otherwise leave one each time."""
        one, other, path = await self.two()
        answer, watch = other.get_and_watch(f"{path}/later")
        await self.fails(answer, NoNode)
        listing, listed = other.get_children_and_watch(f"{path}/later")
        await self.fails(listing, NoNode)
        await one.create(f"{path}/later")
        await one.set(f"{path}/later", b"")
        await one.create(f"{path}/later/child")
        await self.silent(other, watch)
        await self.silent(other, listed)

    async def test_an_exists_watch_fires_when_the_node_is_made(self) -> None:
        """It is left although the node does not exist."""
        one, other, path = await self.two()
        answer, watch = other.exists_and_watch(f"{path}/later")
        self.assertIsNone(await answer)
        await one.create(f"{path}/later")
        await self.assert_fires(watch, EventType.CREATED, f"{path}/later")

    async def test_an_exists_watch_fires_at_change_and_deletion(self) -> None:
        """It is the same as a data watch where the node exists."""
        one, other, path = await self.two()
        answer, watch = other.exists_and_watch(path)
        self.assertIsNotNone(await answer)
        await one.set(path, b"1")
        await self.assert_fires(watch, EventType.CHANGED, path)
        answer, watch = other.exists_and_watch(path)
        await answer
        await one.delete(path)
        await self.assert_fires(watch, EventType.DELETED, path)

    async def test_a_child_watch_fires_at_each_coming_and_going(self) -> None:
        """The watch has to be left again for each of them."""
        one, other, path = await self.two()
        answer, watch = other.get_children_and_watch(path)
        self.assertEqual(await answer, [])
        await one.create(f"{path}/child")
        await self.assert_fires(watch, EventType.CHILDREN, path)
        answer, watch = other.get_children_and_watch(path)
        self.assertEqual(await answer, ["child"])
        await one.delete(f"{path}/child")
        await self.assert_fires(watch, EventType.CHILDREN, path)

    async def test_a_child_watch_fires_when_its_own_node_is_deleted(self) -> None:
        """The event names the node, not its parent."""
        one, other, path = await self.two()
        answer, watch = other.get_children_and_watch(path)
        await answer
        await one.delete(path)
        await self.assert_fires(watch, EventType.DELETED, path)

    async def test_a_child_watch_ignores_data_and_grandchildren(self) -> None:
        """Data of the node and of its children, and children of children, do not fire it."""
        one, other, path = await self.two()
        await one.create(f"{path}/child")
        await other.sync(path)
        answer, watch = other.get_children_and_watch(path)
        await answer
        await one.set(path, b"1")
        await one.set(f"{path}/child", b"1")
        await one.create(f"{path}/child/grandchild")
        await self.silent(other, watch)

    async def test_a_watch_fires_once(self) -> None:
        """A later change needs another watch."""
        one, other, path = await self.two()
        answer, watch = other.get_and_watch(path)
        await answer
        await one.set(path, b"1")
        await self.assert_fires(watch, EventType.CHANGED, path)
        await one.set(path, b"2")  # would fire a Deferred twice
        await other.sync(path)  # another server of an ensemble may not have it yet
        answer, watch = other.get_and_watch(path)
        self.assertEqual((await answer)[0], b"2")
        await self.silent(other, watch)

    async def test_every_watch_that_was_left_fires(self) -> None:
        """The watches are of one client and of several, of one kind and of all."""
        one, other, path = await self.two()
        left = []
        for client in (one, other, other):
            for answer, watch in (
                client.get_and_watch(path),
                client.exists_and_watch(path),
                client.get_children_and_watch(path),
            ):
                await answer
                left.append(watch)
        await one.delete(path)
        for watch in left:
            await self.assert_fires(watch, EventType.DELETED, path)

    async def test_a_clients_own_change_fires_its_watch_first(self) -> None:
        """The change itself is answered afterwards."""
        client, _, path = await self.two()
        answer, watch = client.get_and_watch(path)
        await answer
        order: list[str] = []
        watch.addCallback(lambda event: order.append("watch"))
        await client.set(path, b"1").addCallback(lambda stat: order.append("answer"))
        self.assertEqual(order, ["watch", "answer"])

    async def test_each_part_of_a_multi_fires_its_watches(self) -> None:
        """Each fires as it would alone, and a multi that fails fires none."""
        one, other, path = await self.two()
        data, changed = other.get_and_watch(path)
        names, listed = other.get_children_and_watch(self.root)
        missing, made = other.exists_and_watch(f"{self.root}/m")
        for answer in (data, names, missing):
            await answer
        await self.fails(one.multi([SetData(path, b"1"), Create(f"{self.root}/m"), Delete(f"{self.root}/no")]), NoNode)
        await self.silent(other, changed)
        await self.silent(other, listed)
        await self.silent(other, made)
        await one.multi([SetData(path, b"1"), Create(f"{self.root}/m")])
        await self.assert_fires(changed, EventType.CHANGED, path)
        await self.assert_fires(listed, EventType.CHILDREN, self.root)
        await self.assert_fires(made, EventType.CREATED, f"{self.root}/m")

    async def test_watches_fire_when_a_sessions_nodes_go(self) -> None:
        """Consumers learn so that another one is gone."""
        one, other, _ = await self.two()
        path = await one.create(f"{self.root}/e", ephemeral=True)
        await other.sync()  # another server of an ensemble may be behind
        answer, watch = other.exists_and_watch(path)
        await answer
        names, listed = other.get_children_and_watch(self.root)
        await names
        await one.close()
        await self.assert_fires(watch, EventType.DELETED, path)
        await self.assert_fires(listed, EventType.CHILDREN, self.root)

    async def test_a_watch_fires_before_the_change_is_seen(self) -> None:
        """A cache that trusted its watch would otherwise miss a change: fifty changes are read as they come."""
        one, other, path = await self.two()
        for number in range(1, 51):
            answer, watch = other.get_and_watch(path)
            _, left = await answer
            fired: list[WatchEvent] = []
            watch.addCallback(fired.append)
            writing = one.set(path, b"%d" % number)
            while True:
                _, stat = await other.get(path)
                if stat.version > left.version:
                    self.assertEqual([event.type for event in fired], [EventType.CHANGED])
                    break
            await writing

    async def test_a_cancelled_watch_is_forgotten(self) -> None:
        """Another one on the same node is not."""
        one, other, path = await self.two()
        first, forgotten = other.get_and_watch(path)
        second, watch = other.get_and_watch(path)
        await first
        await second
        forgotten.addErrback(lambda failure: failure.trap(CancelledError))
        forgotten.cancel()
        await one.set(path, b"1")
        await self.assert_fires(watch, EventType.CHANGED, path)

    async def test_cancelling_the_answer_forgets_the_watch(self) -> None:
        """The caller has no more use for an event."""
        one, other, path = await self.two()
        answer, watch = other.get_and_watch(path)
        answer.cancel()
        await self.fails(answer, CancelledError)
        await one.set(path, b"1")
        await self.silent(other, watch)
