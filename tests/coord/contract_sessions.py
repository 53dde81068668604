"""The contract of ICoordination's session, its connection and its timeouts: see contract.py."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred

from logd.coord.errors import ClientClosing, OperationTimeout
from logd.coord.interfaces import ICoordination
from logd.coord.records import Create, EventType, SessionState, WatchEvent
from tests.coord.contract import Contract


class SessionContract(Contract):
    """A session's states and its end, and what becomes of calls meanwhile."""

    async def reaches(self, client: ICoordination, *wanted: SessionState) -> None:
        """Wait until the session has gone through these states, from now on."""
        missing = list(wanted)
        done: Deferred[None] = Deferred()

        def listener(state: SessionState) -> None:
            if missing and state is missing[0]:
                missing.pop(0)
                if not missing and not done.called:
                    done.callback(None)

        end = client.subscribe(listener)
        try:
            await self.soon(done)
        finally:
            end()

    async def test_a_connected_client_knows_its_session(self) -> None:
        """State, id and timeout are set, and the last contact is a time."""
        client = await self.start()
        self.assertIs(client.state, SessionState.CONNECTED)
        self.assertNotEqual(client.session_id, 0)
        self.assertGreater(client.session_timeout, 0)
        self.assertGreater(client.last_contact, 0)

    async def test_every_answer_moves_the_last_contact(self) -> None:
        """The owner of ephemeral nodes measures by it how long it may go on without the tree."""
        client = await self.start()
        before = client.last_contact
        for _ in range(10):
            await client.sync(self.root)
        self.assertGreater(client.last_contact, before)

    async def test_connecting_twice_changes_nothing(self) -> None:
        """The session stays the same."""
        client = await self.start()
        session = client.session_id
        self.assertIs(await client.connect(), client)
        self.assertEqual(client.session_id, session)

    async def test_closing_removes_the_ephemeral_nodes_at_once(self) -> None:
        """Other nodes stay, subscribers are told, and a second close does no harm."""
        client, other = await self.start(), await self.make_client()
        ephemeral = await client.create(f"{self.root}/e", ephemeral=True)
        lasting = await client.create(f"{self.root}/p")
        told: list[SessionState] = []
        client.subscribe(told.append)
        await client.close()
        await other.sync(self.root)
        self.assertIsNone(await other.exists(ephemeral))
        self.assertIsNotNone(await other.exists(lasting))
        self.assertEqual(told, [SessionState.CLOSED])
        self.assertIs(client.state, SessionState.CLOSED)
        await client.close()

    async def test_a_closed_client_fails_every_call(self) -> None:
        """A call that was under way fails too, and a watch fires with the session's end."""
        client = await self.start()
        answer, watch = client.get_and_watch(self.root)
        await answer
        under_way = client.get(self.root)
        closing = client.close()
        await self.fails(under_way, ClientClosing)
        event = await self.soon(watch)
        self.assertEqual((event.type, event.state), (EventType.SESSION, SessionState.CLOSED))
        await closing
        calls: list[Deferred[Any]] = [
            client.connect(),
            client.create(f"{self.root}/a"),
            client.create(f"{self.root}/a/b", makepath=True),
            client.get(self.root),
            client.get_and_watch(self.root)[0],
            client.exists(self.root),
            client.get_children(self.root),
            client.set(self.root, b""),
            client.delete(self.root),
            client.multi([Create(f"{self.root}/a")]),
            client.sync(),
        ]
        for call in calls:
            await self.fails(call, ClientClosing)

    async def test_an_ended_subscription_hears_nothing_more(self) -> None:
        """It may be ended twice."""
        client = await self.start()
        told: list[SessionState] = []
        end = client.subscribe(told.append)
        end()
        end()
        await client.close()
        self.assertEqual(told, [])

    async def test_a_cancelled_call_disturbs_no_other(self) -> None:
        """It fails with CancelledError, and the others get their own answers."""
        client = await self.start()
        calls: list[Deferred[Any]] = [client.get(self.root) for _ in range(3)]
        calls[1].cancel()
        await self.fails(calls[1], CancelledError)
        self.assertEqual(await calls[0], await calls[2])
        making = client.create(f"{self.root}/a/b/c", makepath=True)
        making.cancel()
        await self.fails(making, CancelledError)
        await client.get(self.root)

    async def test_a_lost_connection_keeps_the_session_and_its_nodes(self) -> None:
        """The session is suspended, its watches fire, and afterwards it goes on."""
        client, other = await self.start(), await self.make_client()
        path = await client.create(f"{self.root}/e", ephemeral=True)
        answer, watch = client.get_and_watch(self.root)
        await answer
        session = client.session_id
        suspended = self.reaches(client, SessionState.SUSPENDED)
        gone = Deferred.fromCoroutine(suspended)
        await self.cut_off(client)
        await gone
        event: WatchEvent = await self.soon(watch)
        self.assertEqual((event.type, event.path), (EventType.SESSION, self.root))
        self.assertIsNot(event.state, SessionState.CONNECTED)
        back = Deferred.fromCoroutine(self.reaches(client, SessionState.CONNECTED))
        await self.rejoin(client)
        await back
        self.assertEqual(client.session_id, session)
        self.assertIsNotNone(await other.exists(path))
        # The watch was forgotten: the next one is another.
        await other.set(self.root, b"1")
        await client.sync()  # the other client's server may be another, and ahead
        self.assertEqual((await client.get(self.root))[0], b"1")

    async def test_calls_wait_for_a_suspended_session(self) -> None:
        """They are answered in their order once it is connected."""
        client = await self.start()
        gone = Deferred.fromCoroutine(self.reaches(client, SessionState.SUSPENDED))
        await self.cut_off(client)
        await gone
        calls: list[Deferred[Any]] = [client.set(self.root, b"%d" % number) for number in range(3)]
        reading = client.get(self.root)
        await self.rejoin(client)
        self.assertEqual([(await self.soon(call)).version for call in calls], [1, 2, 3])
        self.assertEqual((await reading)[0], b"2")

    async def test_calls_of_a_suspended_session_time_out(self) -> None:
        """They can be cancelled too, and later calls are answered."""
        client = await self.start()
        gone = Deferred.fromCoroutine(self.reaches(client, SessionState.SUSPENDED))
        await self.cut_off(client)
        await gone
        await self.fails(client.get(self.root, timeout=0.2), OperationTimeout)
        await self.fails(client.create(f"{self.root}/a/b", makepath=True, timeout=0.2), OperationTimeout)
        waiting = client.get(self.root)
        waiting.cancel()
        await self.fails(waiting, CancelledError)
        await self.rejoin(client)
        await self.soon(client.get(self.root))

    async def test_another_session_follows_one_that_expired(self) -> None:
        """The old one is lost with its ephemeral nodes, and its watches fire."""
        client, other = await self.start(), await self.make_client()
        path = await client.create(f"{self.root}/e", ephemeral=True)
        answer, watch = client.get_and_watch(self.root)
        await answer
        session = client.session_id
        states: list[SessionState] = []
        client.subscribe(states.append)
        renewed = Deferred.fromCoroutine(self.reaches(client, SessionState.LOST, SessionState.CONNECTED))
        await self.expire(client)
        await renewed
        self.assertEqual(states[-2:], [SessionState.LOST, SessionState.CONNECTED])
        self.assertIs((await self.soon(watch)).type, EventType.SESSION)
        self.assertNotEqual(client.session_id, session)
        await other.sync(self.root)
        self.assertIsNone(await other.exists(path))
        await client.create(path, ephemeral=True)
