"""Tests of the order of messages while a producer with sets in flight meets full disks, slow flushes and timeouts."""

from __future__ import annotations

import random

from logd.protocol.loops import check_set
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from tests.broker.rig import BrokerTestCase
from tests.log.entries import plain

SETS = 40
WINDOW = 5


class OrderingTests(BrokerTestCase):
    """Many small random histories, each from a seed."""

    log_options = {"segment_bytes": 60}  # noqa: RUF012

    def play(self, seed: random.Random, topic: str, acks: int) -> None:
        """Produce SETS sets like a producer that resends, in order, from the first set without an acknowledgement."""
        self.create(topic)
        peer = self.connect()
        sets = [plain(b"set %d" % number) for number in range(SETS)]
        stored: dict[int, int] = {}
        in_flight: list[tuple[int, ProduceAck]] = []
        responses: dict[int, object] = {}
        following, broken = 0, False
        while len(stored) < SETS:
            action = seed.randrange(7)
            if action <= 1 and not broken:
                begun = []
                while following < SETS and len(in_flight) < WINDOW and seed.random() < 0.8:
                    restart = following == len(stored) and not in_flight
                    part = ProducePart(topic, 0, 0, restart, sets[following])
                    begun.append(ProduceAck(acks, 500, (part,)))
                    in_flight.append((following, begun[-1]))
                    following += 1
                peer.send(*begun)
            elif action == 2 and self.flushes.works:
                self.flushes.work()
            elif action == 3 and self.flushes.outcomes:
                self.flushes.deliver()
            elif action == 4:
                self.files.room = seed.choice((None, None, seed.randrange(60)))
            elif action == 5 and seed.random() < 0.2:
                self.clock.advance(0.3)
            pairs = peer.conversation.receive_data(peer.received())
            responses.update({id(request): response for request, response in pairs})
            while in_flight and id(in_flight[0][1]) in responses:
                number, request = in_flight.pop(0)
                (part_stored,) = responses.pop(id(request)).parts  # type: ignore[attr-defined]
                if part_stored.error:
                    broken = True
                elif not broken:
                    stored[number] = part_stored.first_id
            if broken and not in_flight:
                following, broken = len(stored), False
        self.files.room = None
        self.settle()
        log = self.content(topic)
        for number, first_id in stored.items():
            self.assertEqual(log[first_id : first_id + len(sets[number])], sets[number])
        first_places = [log.index(each) for each in sets]
        self.assertEqual(first_places, sorted(first_places))
        check_set(log, 1000)
        peer.lose()

    def test_random_histories_keep_messages_in_order(self) -> None:
        """Every acknowledged set is in the log, and the first copies are in the order of sending."""
        for number in range(150):
            self.play(random.Random(number), f"t{number}", acks=-1 if number % 3 else 1)
