"""The contract of ICoordination's calls: mixins for the tests of each implementation, whatever the tree behind it.

A test module derives, for each mixin, a TestCase that says how a client is made::

    class MineCallsTests(CallsContract, TestCase):
        async def make_client(self, **settings):
            ...

Tests run on the real reactor and share nothing: each works under a node of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SkipTest, TestCase
from zope.interface.verify import verifyObject

from logd.coord.errors import (
    BadArguments,
    BadVersion,
    InvalidAcl,
    NoAuth,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
)
from logd.coord.interfaces import ICoordination
from logd.coord.records import Acl, Check, Create, Delete, Operation, Permission, SetData, Stat, WatchEvent

#: Seconds to wait for an event before the test fails. A busy machine may need some.
PATIENCE = 120.0

T = TypeVar("T")

if TYPE_CHECKING:
    _Case = TestCase
else:
    _Case = object


class Contract(_Case):
    """The functions by which a contract's tests reach an implementation: each implementation's tests provide them."""

    async def make_client(self, *, session_timeout: float = 10.0, timeout: float = PATIENCE) -> ICoordination:
        """Return a new client, connected; closed at the test's end."""
        raise NotImplementedError

    async def cut_off(self, client: ICoordination) -> None:
        """End the client's connection, and let it make no other until ``rejoin``."""
        raise SkipTest("this implementation's connection cannot be cut by a test")

    async def rejoin(self, client: ICoordination) -> None:
        """Let a client reach the tree again."""
        raise NotImplementedError

    async def expire(self, client: ICoordination) -> None:
        """Have the tree end the client's session, as if it had expired."""
        raise SkipTest("this implementation's sessions cannot be ended by a test")

    async def start(self) -> ICoordination:
        """Return a client, with a node for this test alone at ``self.root``; it is taken away at the end."""
        client = await self.make_client()
        self.root = await client.create(f"/contract-{uuid4().hex}")
        self.addCleanup(self._sweep)
        return client

    async def fails(self, awaitable: Awaitable[object], error: type[Exception]) -> None:
        """Check that the call fails with that error."""
        try:
            result = await awaitable
        except error:
            return
        self.fail(f"{result!r} instead of {error.__name__}")

    async def soon(self, deferred: Deferred[T]) -> T:
        """Wait for an event that has to come within PATIENCE."""
        from twisted.internet import reactor

        deferred.addTimeout(PATIENCE, reactor)
        return await deferred

    async def silent(self, client: ICoordination, watch: Deferred[WatchEvent]) -> None:
        """Check that the watch has not fired, once the client knows all that was done before."""
        await client.sync(self.root)
        await client.exists(self.root)
        self.assertNoResult(watch)

    async def _sweep(self) -> None:
        client = await self.make_client()
        await self._remove(client, self.root)

    async def _remove(self, client: ICoordination, path: str) -> None:
        try:
            for name in await client.get_children(path):
                await self._remove(client, f"{path}/{name}")
        except (NoAuth, NoNode):
            pass  # no test puts children under a node that it may not read
        with suppress(NoNode):
            await client.delete(path)


class CallsContract(Contract):
    """Each call's answer, and the errors that the tree answers it with."""

    async def test_a_client_has_everything_that_the_interface_names(self) -> None:
        """A program may then be given any of the clients."""
        verifyObject(ICoordination, await self.start())

    async def test_a_new_node_has_its_data_and_its_stat(self) -> None:
        """The Stat is that of a node which was never changed and has no children."""
        client = await self.start()
        path = f"{self.root}/a"
        self.assertEqual(await client.create(path, b"one"), path)
        data, stat = await client.get(path)
        self.assertEqual(data, b"one")
        self.assertIsInstance(stat, Stat)
        self.assertEqual((stat.version, stat.children_count, stat.data_length, stat.ephemeral_owner), (0, 0, 3, 0))
        self.assertEqual(stat.created_zxid, stat.modified_zxid)
        self.assertEqual((await client.get_children(self.root)), ["a"])

    async def test_data_of_any_bytes_are_read_as_written(self) -> None:
        """They are no data at all, each of the 256 bytes, and a hundred thousand bytes."""
        client = await self.start()
        for number, data in enumerate((b"", bytes(range(256)), b"x" * 100_000)):
            await client.create(f"{self.root}/{number}", data)
            self.assertEqual((await client.get(f"{self.root}/{number}"))[0], data)

    async def test_names_may_have_letters_of_any_language(self) -> None:
        """Spaces and dots are allowed too, but for names of one or two dots alone."""
        client = await self.start()
        for name in ("Grüße", "日本", "a b", "...", ".a", "a."):
            await client.create(f"{self.root}/{name}")
        self.assertEqual(await client.get_children(self.root), sorted(("Grüße", "日本", "a b", "...", ".a", "a.")))

    async def test_a_create_in_an_impossible_place_is_refused(self) -> None:
        """The node exists, its parent does not, or its parent is ephemeral."""
        client = await self.start()
        await client.create(f"{self.root}/e", ephemeral=True)
        await self.fails(client.create(f"{self.root}/e"), NodeExists)
        await self.fails(client.create(f"{self.root}/no/child"), NoNode)
        await self.fails(client.create(f"{self.root}/e/child"), NoChildrenForEphemerals)

    async def test_makepath_makes_the_missing_parents(self) -> None:
        """Parents that exist stay as they are; the node itself must not exist."""
        client = await self.start()
        path = f"{self.root}/a/b/c"
        self.assertEqual(await client.create(path, b"x", makepath=True, ephemeral=True), path)
        stat = await client.exists(f"{self.root}/a/b")
        assert stat is not None
        self.assertEqual((stat.ephemeral_owner, stat.data_length), (0, 0))
        self.assertEqual(await client.create(f"{self.root}/a/b/d", makepath=True), f"{self.root}/a/b/d")
        await self.fails(client.create(path, makepath=True), NodeExists)

    async def test_two_clients_make_the_same_parents_together(self) -> None:
        """Each passes over the parents that the other one made first."""
        one, other = await self.start(), await self.make_client()
        calls = [
            client.create(f"{self.root}/p/q/{number}-{who}", makepath=True)
            for number in range(5)
            for who, client in enumerate((one, other))
        ]
        for call in calls:
            await call
        self.assertEqual(len(await one.get_children(f"{self.root}/p/q")), 10)

    async def test_sequence_numbers_count_every_child_there_ever_was(self) -> None:
        """They have ten digits, and a deleted child's number is not given again."""
        client = await self.start()
        first = await client.create(f"{self.root}/s-", sequence=True)
        self.assertEqual(first, f"{self.root}/s-0000000000")
        await client.create(f"{self.root}/other")
        await client.delete(first)
        self.assertEqual(await client.create(f"{self.root}/t", sequence=True), f"{self.root}/t0000000002")
        self.assertEqual(await client.create(f"{self.root}/", sequence=True), f"{self.root}/0000000003")

    async def test_an_ephemeral_node_names_its_session(self) -> None:
        """It may have a sequence number as well."""
        client = await self.start()
        path = await client.create(f"{self.root}/e", ephemeral=True, sequence=True)
        _, stat = await client.get(path)
        self.assertEqual(stat.ephemeral_owner, client.session_id)

    async def test_a_path_that_no_node_can_have_is_refused(self) -> None:
        """Every call fails with BadArguments, and none of them reaches a node."""
        client = await self.start()
        for path in ("", "a", "/a/", "//a", "/a//b", "/a/./b", "/a/../b", "/a\0"):
            calls: list[Deferred[Any]] = [
                client.create(path),
                client.get(path),
                client.get_and_watch(path)[0],
                client.exists(path),
                client.exists_and_watch(path)[0],
                client.get_children(path),
                client.get_children_and_watch(path)[0],
                client.set(path, b""),
                client.delete(path),
                client.multi([Create(path)]),
            ]
            for call in calls:
                await self.fails(call, BadArguments)

    async def test_exists_returns_a_stat_or_none(self) -> None:
        """A node that is not there is no error here."""
        client = await self.start()
        self.assertIsInstance(await client.exists(self.root), Stat)
        self.assertIsNone(await client.exists(f"{self.root}/no"))

    async def test_a_missing_node_is_an_error_of_every_other_call(self) -> None:
        """It cannot be read, changed, checked or removed."""
        client, path = await self.start(), "/no-such-node"
        await self.fails(client.get(path), NoNode)
        await self.fails(client.get_children(path), NoNode)
        await self.fails(client.set(path, b""), NoNode)
        await self.fails(client.delete(path), NoNode)
        await self.fails(client.multi([Check(path)]), NoNode)

    async def test_children_are_sorted_and_leave_out_grandchildren(self) -> None:
        """A node without any has an empty list."""
        client = await self.start()
        for name in ("b", "a/x", "c"):
            await client.create(f"{self.root}/{name}", makepath=True)
        self.assertEqual(await client.get_children(self.root), ["a", "b", "c"])
        self.assertEqual(await client.get_children(f"{self.root}/b"), [])

    async def test_each_change_adds_one_to_the_version(self) -> None:
        """A version that is demanded has to be the node's, or nothing is changed."""
        client, path = await self.start(), f"{self.root}/a"
        await client.create(path)
        self.assertEqual((await client.set(path, b"1")).version, 1)
        stat = await client.set(path, b"22", version=1)
        self.assertEqual((stat.version, stat.data_length), (2, 2))
        await self.fails(client.set(path, b"3", version=1), BadVersion)
        self.assertEqual(await client.get(path), (b"22", stat))
        self.assertGreater(stat.modified_zxid, stat.created_zxid)

    async def test_a_node_with_children_is_not_deleted(self) -> None:
        """A node of another version than the one demanded is not deleted either."""
        client, path = await self.start(), f"{self.root}/a"
        await client.create(f"{path}/b", makepath=True)
        await client.set(path, b"")
        await self.fails(client.delete(path), NotEmpty)
        await client.delete(f"{path}/b")
        await self.fails(client.delete(path, version=0), BadVersion)
        await client.delete(path, version=1)
        self.assertIsNone(await client.exists(path))

    async def test_an_access_list_is_obeyed(self) -> None:
        """A list that makes no sense is refused when the node is made."""
        client, path = await self.start(), f"{self.root}/a"
        await client.create(path, acl=[Acl(Permission.READ, "world", "anyone")])
        await client.get(path)
        await self.fails(client.set(path, b""), NoAuth)
        await self.fails(client.create(f"{path}/b"), NoAuth)
        await self.fails(client.create(f"{self.root}/c", acl=[Acl(31, "no-such-scheme", "x")]), InvalidAcl)
        await client.create(f"{self.root}/d", b"secret", acl=[Acl(31, "digest", "u:h")])
        await self.fails(client.get(f"{self.root}/d"), NoAuth)

    async def test_a_multi_does_all_operations_in_order(self) -> None:
        """Each has its own result, and all have one zxid."""
        client, path = await self.start(), f"{self.root}/a"
        results = await client.multi(
            [
                Create(path, b"1"),
                Create(f"{path}/s", sequence=True),
                SetData(path, b"2", version=0),
                Check(path, version=1),
                Delete(f"{path}/s0000000000"),
            ]
        )
        self.assertEqual([results[0], results[1], results[3], results[4]], [path, f"{path}/s0000000000", None, None])
        self.assertEqual(results[2].version if isinstance(results[2], Stat) else None, 1)
        data, stat = await client.get(path)
        self.assertEqual((data, stat.created_zxid), (b"2", stat.modified_zxid))

    async def test_a_multi_of_no_operations_has_no_results(self) -> None:
        """An empty list is no error."""
        client = await self.start()
        self.assertEqual(await client.multi([]), [])

    async def test_a_multi_that_fails_changes_nothing(self) -> None:
        """One operation that cannot be done undoes the others, and its error is the multi's."""
        client, path = await self.start(), f"{self.root}/a"
        await client.create(f"{path}/b", b"old", makepath=True)
        before = await client.get(f"{path}/b"), await client.get(path)
        bad: tuple[tuple[Operation, type[Exception]], ...] = (
            (Create(path), NodeExists),
            (Create(f"{self.root}/no/x"), NoNode),
            (Delete(path), NotEmpty),
            (Delete(f"{self.root}/no"), NoNode),
            (SetData(f"{path}/b", b"", version=7), BadVersion),
            (Check(f"{path}/b", version=7), BadVersion),
        )
        for operation, error in bad:
            await self.fails(
                client.multi([SetData(f"{path}/b", b"new"), Create(f"{path}/c"), operation, Delete("/never-tried")]),
                error,
            )
        self.assertEqual((await client.get(f"{path}/b"), await client.get(path)), before)
        self.assertEqual(await client.get_children(path), ["b"])
        self.assertEqual(await client.create(f"{path}/s", sequence=True), f"{path}/s0000000001")

    async def test_a_sync_shows_what_another_client_has_done(self) -> None:
        """A client of another server of an ensemble may be behind without it."""
        one, other = await self.start(), await self.make_client()
        for number in range(5):
            await one.set(self.root, b"%d" % number)
            await other.sync(self.root)
            self.assertEqual((await other.get(self.root))[0], b"%d" % number)

    async def test_calls_are_answered_in_their_order(self) -> None:
        """A hundred calls are made without waiting for any."""
        client = await self.start()
        answered: list[int] = []

        def note(result: object, index: int) -> object:
            answered.append(index)
            return result

        calls: list[Deferred[Any]] = []
        for number in range(50):
            calls.append(client.set(self.root, b"%d" % number))
            calls.append(client.get(self.root))
        for index, call in enumerate(calls):
            call.addCallback(note, index)
        results = [await call for call in calls]
        self.assertEqual(answered, list(range(100)))
        self.assertEqual([data for data, _ in results[1::2]], [b"%d" % number for number in range(50)])
