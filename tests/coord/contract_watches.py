"""What every ICoordination has to do with watches: see contract.py."""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred

from logd.coord.errors import NoNode
from logd.coord.interfaces import ICoordination
from logd.coord.records import Create, Delete, EventType, SetData, WatchEvent
from tests.coord.contract import Contract


class WatchesContract(Contract):
    """Which change fires which watch, once, and before anything shows the change."""

    async def assert_fires(self, watch: Deferred[WatchEvent], type_: EventType, path: str) -> None:
        """The watch fires with that event."""
        event = await self.soon(watch)
        self.assertEqual((event.type, event.path), (type_, path))

    async def two(self) -> tuple[ICoordination, ICoordination, str]:
        """Return two clients and the path of a node that both know: the other's server may have been behind."""
        one, other = await self.start(), await self.make_client()
        path = await one.create(f"{self.root}/n", b"0")
        await other.sync(path)
        return one, other, path

    async def test_get_changed(self) -> None:
        """A data watch tells of new data, with the answer it was left with telling the old."""
        one, other, path = await self.two()
        answer, watch = other.get_and_watch(path)
        self.assertEqual((await answer)[0], b"0")
        await one.set(path, b"1")
        await self.assert_fires(watch, EventType.CHANGED, path)

    async def test_get_deleted(self) -> None:
        """A data watch tells of the node's end."""
        one, other, path = await self.two()
        answer, watch = other.get_and_watch(path)
        await answer
        await one.delete(path)
        await self.assert_fires(watch, EventType.DELETED, path)

    async def test_get_is_blind_for_children(self) -> None:
        """A data watch does not tell of children."""
        one, other, path = await self.two()
        answer, watch = other.get_and_watch(path)
        await answer
        await one.create(f"{path}/child")
        await one.delete(f"{path}/child")
        await self.silent(other, watch)

    async def test_get_missing(self) -> None:
        """Where there was nothing to read no watch is left."""
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

    async def test_exists_created(self) -> None:
        """A watch on a node that is not there tells of its beginning."""
        one, other, path = await self.two()
        answer, watch = other.exists_and_watch(f"{path}/later")
        self.assertIsNone(await answer)
        await one.create(f"{path}/later")
        await self.assert_fires(watch, EventType.CREATED, f"{path}/later")

    async def test_exists_changed_and_deleted(self) -> None:
        """A watch on a node that is there tells of new data and of its end."""
        one, other, path = await self.two()
        answer, watch = other.exists_and_watch(path)
        self.assertIsNotNone(await answer)
        await one.set(path, b"1")
        await self.assert_fires(watch, EventType.CHANGED, path)
        answer, watch = other.exists_and_watch(path)
        await answer
        await one.delete(path)
        await self.assert_fires(watch, EventType.DELETED, path)

    async def test_children(self) -> None:
        """A child watch tells of a child that comes, and of one that goes."""
        one, other, path = await self.two()
        answer, watch = other.get_children_and_watch(path)
        self.assertEqual(await answer, [])
        await one.create(f"{path}/child")
        await self.assert_fires(watch, EventType.CHILDREN, path)
        answer, watch = other.get_children_and_watch(path)
        self.assertEqual(await answer, ["child"])
        await one.delete(f"{path}/child")
        await self.assert_fires(watch, EventType.CHILDREN, path)

    async def test_children_deleted(self) -> None:
        """A child watch tells of the node's own end."""
        one, other, path = await self.two()
        answer, watch = other.get_children_and_watch(path)
        await answer
        await one.delete(path)
        await self.assert_fires(watch, EventType.DELETED, path)

    async def test_children_is_blind_for_the_rest(self) -> None:
        """A child watch tells neither of data nor of grandchildren."""
        one, other, path = await self.two()
        await one.create(f"{path}/child")
        await other.sync(path)
        answer, watch = other.get_children_and_watch(path)
        await answer
        await one.set(path, b"1")
        await one.set(f"{path}/child", b"1")
        await one.create(f"{path}/child/grandchild")
        await self.silent(other, watch)

    async def test_once(self) -> None:
        """A watch fires once; what comes later needs another."""
        one, other, path = await self.two()
        answer, watch = other.get_and_watch(path)
        await answer
        await one.set(path, b"1")
        await self.assert_fires(watch, EventType.CHANGED, path)
        await one.set(path, b"2")  # would fire a Deferred twice
        answer, watch = other.get_and_watch(path)
        self.assertEqual((await answer)[0], b"2")
        await self.silent(other, watch)

    async def test_several(self) -> None:
        """Each watch that was left fires, of one client or of several, of one kind or of all."""
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

    async def test_own_change(self) -> None:
        """A client's own change fires its watch, before the change is answered."""
        client, _, path = await self.two()
        answer, watch = client.get_and_watch(path)
        await answer
        order: list[str] = []
        watch.addCallback(lambda event: order.append("watch"))
        await client.set(path, b"1").addCallback(lambda stat: order.append("answer"))
        self.assertEqual(order, ["watch", "answer"])

    async def test_multi(self) -> None:
        """Each part of a multi fires what it would fire alone; one that fails fires nothing."""
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

    async def test_ephemeral(self) -> None:
        """Watches tell of ephemeral nodes that go with their session."""
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

    async def test_before_the_data(self) -> None:
        """A client never sees a change of what it watches before its watch has fired."""
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

    async def test_cancelled(self) -> None:
        """A watch that was cancelled is forgotten; another one on the same node is not."""
        one, other, path = await self.two()
        first, forgotten = other.get_and_watch(path)
        second, watch = other.get_and_watch(path)
        await first
        await second
        forgotten.addErrback(lambda failure: failure.trap(CancelledError))
        forgotten.cancel()
        await one.set(path, b"1")
        await self.assert_fires(watch, EventType.CHANGED, path)

    async def test_answer_cancelled(self) -> None:
        """When the answer is cancelled its watch never fires."""
        one, other, path = await self.two()
        answer, watch = other.get_and_watch(path)
        answer.cancel()
        await self.fails(answer, CancelledError)
        await one.set(path, b"1")
        await self.silent(other, watch)
