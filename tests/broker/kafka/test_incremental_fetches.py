"""Tests of Kafka's incremental fetches: a session whose requests and answers name only what has changed."""

from __future__ import annotations

from random import Random
from typing import Any

from logd.broker.kafka import error_codes
from logd.broker.kafka.fetches import incremental_fetches
from logd.broker.kafka.fetches.incremental_fetches import LEAST_PARTS
from logd.broker.requests import waiting_limits
from logd.broker.requests.fetch_session import FetchSession
from logd.protocol.batch import encode_batch
from logd.protocol.message import Message
from tests.broker.kafka.fetches import behind, fetch, parts_of, values_in
from tests.broker.kafka.rig import KafkaPeer, KafkaTestCase

#: The answer to one partition: its error, the values sent, and its end.
Answer = tuple[int, list[bytes | None], int]


def batch(*payloads: bytes) -> bytes:
    """Return a batch of messages."""
    return encode_batch([Message(payload) for payload in payloads])


class SessionTestCase(KafkaTestCase):
    """A topic of as many partitions as make a session, a native producer, and a client of Kafka with a session."""

    def setUp(self) -> None:
        """Make them."""
        super().setUp()
        self.create("t", LEAST_PARTS)
        self.native, self.peer = self.connect(), self.kafka()
        self.session = self.begin(self.peer)
        self.epoch = 0

    def check_clean(self) -> None:
        """See BrokerTestCase: no partition of a session counts any more either."""
        super().check_clean()
        self.assertEqual(self.broker.counters.session_parts, 0)

    def begin(self, peer: KafkaPeer, count: int = LEAST_PARTS, **more: Any) -> int:
        """Fetch all partitions, and ask for a session; return its id."""
        response = self.ask(peer, fetch(*[("t", number, 0) for number in range(count)], epoch=0, **more))
        self.assertEqual((response.error_code, len(parts_of(response))), (0, count))
        return int(response.session_id)

    def next(self, *parts: tuple[str, int, int], **more: Any) -> Any:
        """Return the next request of the session."""
        self.epoch += 1
        return fetch(*parts, session=self.session, epoch=self.epoch, **more)

    def go_on(self, *parts: tuple[str, int, int], **more: Any) -> dict[tuple[str, int], Answer]:
        """Send the next request of the session, and return the answers to its partitions."""
        return self.answers_in(self.ask(self.peer, self.next(*parts, **more)))

    def answers_in(self, response: Any) -> dict[tuple[str, int], Answer]:
        """Return the answers to partitions in a response of the session."""
        self.assertEqual((response.error_code, response.session_id), (0, self.session))
        found = {}
        for topic in response.responses:
            for part in topic.partitions:
                values = [value for _, value in values_in(part)]
                found[topic.topic, part.partition_index] = (part.error_code, values, part.high_watermark)
        return found

    def put(self, partition: int, *payloads: bytes, topic: str = "t") -> int:
        """Produce a batch, and return the partition's end."""
        self.produce(self.native, topic, batch(*payloads), partition)
        return self.log_of(topic, partition).visible_end

    def refused(self, request: Any) -> int:
        """Return the code of the error with which a whole request is refused."""
        response = self.ask(self.peer, request)
        self.assertEqual((response.session_id, response.responses), (0, []))
        return int(response.error_code)


class ChangesTests(SessionTestCase):
    """The partitions that requests and answers name."""

    def test_only_what_has_arrived_is_answered(self) -> None:
        """The client names the partition once it goes on, and no other one ever."""
        self.assertGreater(self.session, 0)
        self.assertEqual(self.go_on(), {})
        end = self.put(7, b"a")
        self.assertEqual(self.go_on(), {("t", 7): (0, [b"a"], end)})
        self.assertEqual(self.go_on(("t", 7, end)), {})
        later = self.put(7, b"b")
        self.put(9, b"c")
        self.assertEqual(self.go_on(), {("t", 7): (0, [b"b"], later), ("t", 9): (0, [b"c"], end)})

    def test_what_is_not_named_is_answered_again(self) -> None:
        """The client has not taken it, so its position is where it was."""
        end = self.put(7, b"a")
        for _ in range(3):
            self.assertEqual(self.go_on(), {("t", 7): (0, [b"a"], end)})
        self.assertEqual(self.go_on(("t", 7, end)), {})
        self.assertEqual(self.go_on(("t", 7, 0)), {("t", 7): (0, [b"a"], end)})

    def test_it_waits_for_any_partition(self) -> None:
        """The answer follows the first message of any of them; otherwise it is empty when the time is over."""
        self.peer.send(self.next(wait_ms=500))
        self.settle()
        self.assertEqual(self.peer.answers(), [])
        end = self.put(LEAST_PARTS - 1, b"a")
        (response,) = self.peer.answers()
        self.assertEqual(self.answers_in(response), {("t", LEAST_PARTS - 1): (0, [b"a"], end)})
        self.peer.send(self.next(("t", LEAST_PARTS - 1, end), wait_ms=500))
        self.settle()
        self.clock.advance(0.5)
        self.settle()
        (response,) = self.peer.answers()
        self.assertEqual(self.answers_in(response), {})

    def test_a_forgotten_partition(self) -> None:
        """It is not answered any more, also where the last answer carried it, until it is named again."""
        end = self.put(7, b"a")
        self.assertEqual(list(self.go_on()), [("t", 7)])
        self.assertEqual(self.go_on(forgotten=[("t", 7), ("t", 7), ("unknown", 7)]), {})
        self.assertEqual(self.broker.counters.session_parts, LEAST_PARTS - 1)
        self.assertEqual(self.go_on(("t", 7, 0)), {("t", 7): (0, [b"a"], end)})

    def test_a_new_partition(self) -> None:
        """The next answer tells its end even if it has no messages, but comes no sooner for that."""
        self.create("more")
        end = self.put(0, b"a", topic="more")
        self.peer.send(self.next(("more", 0, end), wait_ms=500))
        self.settle()
        self.assertEqual(self.peer.answers(), [])
        self.clock.advance(0.5)
        self.settle()
        (response,) = self.peer.answers()
        self.assertEqual(self.answers_in(response), {("more", 0): (0, [], end)})
        self.assertEqual(self.go_on(), {})

    def test_a_session_without_partitions_is_over(self) -> None:
        """The id says so, at once."""
        gone = [("t", number) for number in range(LEAST_PARTS)]
        response = self.ask(self.peer, self.next(forgotten=gone, wait_ms=500))
        self.assertEqual((response.error_code, response.session_id, response.responses), (0, 0, []))
        self.assertEqual(self.refused(self.next()), error_codes.FETCH_SESSION_ID_NOT_FOUND)

    def test_errors_of_partitions(self) -> None:
        """They are answered each time, as long as the client asks for the partition."""
        for _ in range(2):
            self.assertEqual(
                {key: answer[0] for key, answer in self.go_on(("unknown", 0, 0), ("t", 5, 1000), wait_ms=500).items()},
                {("unknown", 0): 3, ("t", 5): 1},
            )
        self.assertEqual(self.go_on(("t", 5, 0), forgotten=[("unknown", 0)]), {("t", 5): (0, [], 0)})

    def test_an_error_that_is_over(self) -> None:
        """The client learns it from the next answer, even if there are no messages, and once."""
        self.assertEqual(list(self.go_on(("more", 0, 0))), [("more", 0)])
        self.create("more")
        self.assertEqual(self.go_on(), {("more", 0): (0, [], 0)})
        self.assertEqual(self.go_on(), {})

    def test_an_error_in_the_first_answer_that_is_over(self) -> None:
        """The client learns it likewise: some wait to know the end of a partition before they go on with others."""
        parts = [("more", 0, 0), *[("t", number, 0) for number in range(LEAST_PARTS)]]
        response = self.ask(self.peer, fetch(*parts, epoch=0))
        self.assertEqual([part.error_code for part in parts_of(response)], [3] + [0] * LEAST_PARTS)
        self.session, self.epoch = response.session_id, 0
        self.create("more")
        self.assertEqual(self.go_on(), {("more", 0): (0, [], 0)})
        self.assertEqual(self.go_on(), {})

    def test_a_deleted_topic(self) -> None:
        """A waiting request is answered with the error of its partition."""
        self.create("more")
        self.go_on(("more", 0, 0))
        self.peer.send(self.next(wait_ms=500))
        self.settle()
        self.broker.administration.delete("more")
        self.settle()
        (response,) = self.peer.answers()
        ((key, answer),) = self.answers_in(response).items()
        self.assertEqual((key, answer[0]), (("more", 0), error_codes.UNKNOWN_TOPIC_OR_PARTITION))

    def test_partitions_take_turns(self) -> None:
        """Those without room in an answer come first in the next."""
        ends = {("t", number): self.put(number, b"a" * 100) for number in range(10)}
        found: dict[tuple[str, int], int] = {}
        positions: list[tuple[str, int, int]] = []
        for _ in range(10):
            answers = self.go_on(*positions, all_most=300)
            positions = [(*key, ends[key]) for key, (_, values, _) in answers.items() if values]
            for key, (_, values, _) in answers.items():
                found[key] = found.get(key, 0) + len(values)
        self.assertEqual(found, dict.fromkeys(ends, 1))

    def test_partitions_that_stand_still_cost_nothing(self) -> None:
        """Only those are looked at that an answer carried, or that a request names."""
        self.go_on()
        armed: list[int] = []
        arm = FetchSession.arm

        def counted(session: FetchSession, number: int, *args: Any, **more: Any) -> bool:
            armed.append(number)
            return arm(session, number, *args, **more)

        self.patch(FetchSession, "arm", counted)
        end = self.put(7, b"a")
        self.go_on()
        self.go_on(("t", 7, end))
        self.go_on()
        self.assertEqual(len(armed), 1)


class LifeTests(SessionTestCase):
    """When there is a session, and when it is over."""

    def test_no_session_for_few_partitions(self) -> None:
        """Each request names all of them."""
        self.assertEqual(self.begin(self.kafka(), LEAST_PARTS - 1), 0)

    def test_ids_and_epochs(self) -> None:
        """A request of another session or epoch is refused; the session itself goes on."""
        other = self.kafka()
        self.assertNotIn(self.begin(other), (0, self.session))
        wrong = fetch(session=self.session + 5, epoch=1)
        self.assertEqual(self.refused(wrong), error_codes.FETCH_SESSION_ID_NOT_FOUND)
        for epoch in (2, 5, (1 << 31) - 1):
            wrong = fetch(session=self.session, epoch=epoch)
            self.assertEqual(self.refused(wrong), error_codes.INVALID_FETCH_SESSION_EPOCH)
        self.assertEqual(self.go_on(), {})

    def test_epochs_begin_again(self) -> None:
        """The first behind the largest is 1: 0 would begin a session."""
        session: Any = self.peer.connection.session
        session._fetching._incremental._epoch = self.epoch = (1 << 31) - 1
        self.epoch -= 1
        self.assertEqual(self.go_on(), {})
        self.epoch = 0
        self.assertEqual(self.go_on(), {})

    def test_another_connection_does_not_know_it(self) -> None:
        """A client that connects again begins anew."""
        self.peer.lose()
        self.settle()
        self.assertEqual(self.broker.counters.session_parts, 0)
        self.peer = self.kafka()
        self.assertEqual(self.refused(self.next()), error_codes.FETCH_SESSION_ID_NOT_FOUND)

    def test_a_full_request_ends_it(self) -> None:
        """With epoch 0 another session follows, with -1 none; a fetch without any session changes nothing."""
        self.ask(self.peer, fetch(("t", 0, 0)))
        self.assertEqual(self.go_on(), {})
        first, self.session, self.epoch = self.session, self.begin(self.peer, session=self.session), 0
        self.assertNotIn(self.session, (0, first))
        self.assertEqual(self.go_on(), {})
        response = self.ask(self.peer, fetch(("t", 0, 0), session=self.session, epoch=-1))
        self.assertEqual((response.session_id, len(parts_of(response))), (0, 1))
        self.assertEqual(self.refused(self.next()), error_codes.FETCH_SESSION_ID_NOT_FOUND)
        self.assertEqual(self.broker.counters.session_parts, 0)

    def test_a_client_that_closes(self) -> None:
        """It names no partition, and does not wait for the answer for long: there is one at once."""
        response = self.ask(self.peer, fetch(session=self.session, epoch=-1, wait_ms=500))
        self.assertEqual((response.error_code, response.session_id, response.responses), (0, 0, []))
        self.assertEqual(self.broker.counters.session_parts, 0)

    def test_the_partitions_of_all_sessions_are_bounded(self) -> None:
        """Beyond the bound there is no new session, and one that grows beyond it is over."""
        self.patch(waiting_limits, "MOST_IN_ALL", LEAST_PARTS + 1)
        self.patch(waiting_limits, "ALWAYS", 0)
        self.assertEqual(self.begin(self.kafka()), 0)
        self.assertEqual(self.broker.counters.session_parts, LEAST_PARTS)
        self.go_on(("unknown", 0, 0))
        refused = self.refused(self.next(("unknown", 1, 0), ("unknown", 2, 0)))
        self.assertEqual(refused, error_codes.FETCH_SESSION_ID_NOT_FOUND)
        self.assertEqual(self.broker.counters.session_parts, 0)

    def test_the_partitions_of_one_session_are_bounded(self) -> None:
        """As those of one request are."""
        self.patch(incremental_fetches, "MOST_PARTS", LEAST_PARTS)
        refused = self.refused(self.next(("unknown", 1, 0)))
        self.assertEqual(refused, error_codes.FETCH_SESSION_ID_NOT_FOUND)
        self.patch(incremental_fetches, "MOST_PARTS", LEAST_PARTS - 1)
        self.assertEqual(self.begin(self.kafka()), 0)

    def test_names_that_no_topic_has(self) -> None:
        """They would take memory for as long as the connection lasts."""
        longest = "n" * 249
        self.assertEqual(self.go_on((longest, 0, 0))[longest, 0][0], error_codes.UNKNOWN_TOPIC_OR_PARTITION)
        refused = self.refused(self.next((longest + "n", 0, 0)))
        self.assertEqual(refused, error_codes.FETCH_SESSION_ID_NOT_FOUND)
        self.assertEqual(self.broker.counters.session_parts, 0)

    def test_a_lost_connection(self) -> None:
        """Nothing is left of a request that waits."""
        self.peer.send(self.next(wait_ms=500))
        self.settle()
        self.assertEqual(len(self.log_of("t", 3)._waiters), 1)
        self.peer.lose()
        self.settle()
        self.assertEqual((len(self.log_of("t", 3)._waiters), self.timers()), (0, []))

    def test_a_stopping_broker_answers(self) -> None:
        """The request that waits gets what there is."""
        self.peer.send(self.next(wait_ms=500))
        self.settle()
        self.broker.stop()
        self.settle()
        (response,) = self.peer.answers()
        self.assertEqual(self.answers_in(response), {})

    def test_old_versions_have_none(self) -> None:
        """They have no field for it."""
        response = self.ask(self.kafka(), fetch(*[("t", number, 0) for number in range(LEAST_PARTS)], version=6))
        self.assertEqual(len(parts_of(response)), LEAST_PARTS)


class RandomTests(SessionTestCase):
    """A client that reads, pauses and goes back as it likes."""

    def test_every_message_comes(self) -> None:
        """It keeps all that was produced, in order, whatever it forgets meanwhile."""
        for seed in range(20):
            self.walk(Random(seed))
            self.assertEqual(self.go_on(forgotten=[("more", 0)]), {})

    def walk(self, random: Random) -> None:
        """Read some partitions of the topic in a new session while they grow."""
        some = random.sample(range(LEAST_PARTS), 6)
        positions = {number: self.log_of("t", number).visible_end for number in range(LEAST_PARTS)}
        everything = [("t", number, offset) for number, offset in positions.items()]
        response = self.ask(self.peer, fetch(*everything, session=self.session, epoch=0))
        self.session, self.epoch = response.session_id, 0
        put: dict[int, list[bytes | None]] = {number: [] for number in some}
        kept: dict[int, list[bytes | None]] = {number: [] for number in some}
        told, paused = dict(positions), set[int]()
        for step in range(60):
            last = step >= 50
            for number in () if last else random.sample(some, random.randrange(3)):
                payloads = [b"%d-%d" % (step, each) * random.randrange(1, 20) for each in range(random.randrange(1, 4))]
                self.put(number, *payloads)
                put[number] += payloads
            wanted = set() if last else {number for number in some if random.random() < 0.3}
            forgotten, back, paused = wanted - paused, paused - wanted, wanted
            named = {number for number in some if positions[number] != told[number]} - paused | back
            parts = [("t", number, positions[number]) for number in named]
            told.update((number, positions[number]) for number in named)
            most = 1 << 20 if last else random.choice((1, 60, 1 << 20))
            response = self.ask(
                self.peer,
                self.next(*parts, forgotten=[("t", number) for number in forgotten], most=most,
                          all_most=1 << 20 if last else random.choice((1, 200, 1 << 20))),
            )  # fmt: skip
            self.assertEqual((response.error_code, response.session_id), (0, self.session))
            for part in parts_of(response):
                number = part.partition_index
                self.assertEqual(part.error_code, 0)
                self.assertNotIn(number, paused)
                if not part.records or (not last and random.random() < 0.2):
                    continue  # it is thrown away
                kept[number] += [value for offset, value in values_in(part) if offset >= positions[number]]
                positions[number] = behind(part)
        self.assertEqual(kept, put)
