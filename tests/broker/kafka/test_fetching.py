"""Tests of Kafka's Fetch: what an answer has, and when it comes."""

from __future__ import annotations

from itertools import product
from struct import pack
from typing import Any

from logd.broker.kafka import error_codes
from logd.broker.kafka.fetches.answer_pieces import LEAST_BYTES
from logd.log.disk.names import segment_name
from logd.protocol import loops
from logd.protocol.batch import encode_batch
from logd.protocol.entry import encode_gap
from logd.protocol.kafka.apis import MOST_BODY_BYTES, MOST_ITEMS
from logd.protocol.kafka.fetched_entries import LARGE_BATCH_BYTES
from logd.protocol.kafka.header import MOST_PARTS
from logd.protocol.loops.batch_runs import find_batches, wire_of_run
from logd.protocol.message import Message
from logd.protocol.requests.fields import size_of
from logd.protocol.wrapper import encode_wrapper
from tests.broker.kafka.fetches import FetchTestCase, behind, fetch, parts_of, values, values_in
from tests.log.entries import plain

PLAIN = plain(b"plain")


def batch(*payloads: bytes) -> bytes:
    """Return a batch of messages."""
    return encode_batch([Message(payload) for payload in payloads])


class AnswerTests(FetchTestCase):
    """The content of an answer."""

    def test_entries_of_all_kinds(self) -> None:
        """Each message comes once, at its last position, in answers large and small."""
        wrapper = encode_wrapper("gzip", loops.encode_set([Message(b"w%d" % number * 9) for number in range(50)]))
        keyed = loops.encode_set([Message(b"v", key=b"k", timestamp=5)])
        large = batch(b"x" * LARGE_BATCH_BYTES, b"y")
        data = [PLAIN, batch(b"a", b"b"), large, wrapper, batch(b"c"), batch(b"d"), keyed, large, PLAIN]
        self.put(*data)
        expected = [
            (message.next_position - 1, message.payload) for message in loops.decode_set(b"".join(data)).messages
        ]
        self.assertEqual(self.read_all(), expected)
        for most in (1, 100, 1000, LARGE_BATCH_BYTES + 500):
            self.assertEqual(self.read_all(most=most), expected, most)
        for version in range(4, 12):
            self.assertEqual(self.read_all(version=version), expected, version)

    def test_every_offset(self) -> None:
        """Any position of a message is answered from it on; beyond the end and before the start is error 1."""
        wrapper = encode_wrapper("gzip", loops.encode_set([Message(b"w%d" % number * 9) for number in range(5)]))
        data = b"".join((PLAIN, batch(b"a", b"b"), wrapper, PLAIN))
        self.put(data)
        end = len(data)
        messages = loops.decode_set(data).messages
        for offset in range(end):
            expected = [(each.next_position - 1, each.payload) for each in messages if each.next_position > offset]
            for _ in range(2):  # the second time the place is remembered
                found = [each for each in values_in(self.part(offset)) if each[0] >= offset]
                self.assertEqual(found, expected, offset)
        self.assertEqual(values_in(self.part(end)), [])
        self.assertEqual([self.part(offset).error_code for offset in (-1, end + 1, 1 << 62)], [1, 1, 1])

    def test_a_log_that_begins_inside_an_entry(self) -> None:
        """The entry is sent whole; a position before the first one is out of range, and the first one is told."""
        wrapper = encode_wrapper("gzip", loops.encode_set([Message(b"w%d" % number * 9) for number in range(5)]))
        for data in (batch(b"a", b"b", b"c"), PLAIN, wrapper):
            self.put(data)
            log = self.log_of(self.topic)
            first, end = log.visible_end - 2, log.visible_end
            answers: list[BaseException | None] = []
            self.broker.store.delete_before(log, first, answers.append)
            self.settle()
            self.assertEqual((answers, log.start < first == log.first), ([None], True))
            for offset in (log.start, first - 1):
                part = self.part(offset)
                self.assertEqual((part.error_code, part.log_start_offset, values_in(part)), (1, first, []), offset)
            for offset in (first, end):
                part = self.part(offset)
                self.assertEqual((part.error_code, part.log_start_offset), (0, first), offset)
            self.assertEqual({offset for offset, _ in self.read_all(first)} <= {first, end - 1}, True)
            self.assertTrue(self.read_all(first))

    def test_a_first_batch_is_whole(self) -> None:
        """It is sent though it is larger than all bounds; a second one is not."""
        first, second = batch(b"a" * 500), batch(b"b" * 500)
        self.put(first, second)
        for most, all_most in ((1, 1 << 20), (1 << 20, 1), (0, 0), (-5, -5), (len(first) - 1, 1 << 20)):
            part = self.part(0, most=most, all_most=all_most)
            self.assertEqual(values(values_in(part)), [b"a" * 500], (most, all_most))
        self.assertEqual(values(values_in(self.part(0, most=len(first) + len(second)))), [b"a" * 500, b"b" * 500])
        self.assertEqual(values(values_in(self.part(0, most=len(first) + len(second) - 1))), [b"a" * 500])

    def test_a_first_batch_larger_than_the_rest_of_the_range(self) -> None:
        """The one that has to be sent may be far larger than what is read at first."""
        large = batch(*(b"%d" % number * 50_000 for number in range(8)))
        self.put(large)
        self.assertEqual(len(self.read_all(most=100)), 8)
        self.assertEqual(len(self.read_all(most=100_000)), 8)

    def test_a_hole(self) -> None:
        """Gaps at the end, between and before messages delay no client, and an offset inside one is answered."""
        gap = encode_gap(500).ljust(500, b"\0")
        data = b"".join((gap, PLAIN, gap, gap, batch(b"a"), gap))
        self.put(*[PLAIN] * 200)  # bytes, which become gaps
        log = self.log_of("t")
        file = self.files._inode(f"{log.folder}/{segment_name(0)}")
        content = bytes(file.data)
        rest = len(content) - len(data)
        data += encode_gap(rest).ljust(rest, b"\0")
        file.data[:] = data
        self.assertEqual(values(self.read_all()), [b"plain", b"a"])
        self.assertEqual(values(self.read_all(most=10)), [b"plain", b"a"])
        self.assertEqual(values(self.read_all(offset=600)), [b"a"])
        self.assertEqual(values(self.read_all(offset=len(content) - 1)), [])

    def test_old_versions(self) -> None:
        """Clients before record batches get message sets, of what is compressed too."""
        messages = [Message(b"v%d" % number, key=b"k", timestamp=7) for number in range(30)]
        data = b"".join((PLAIN, encode_batch(messages, "zstd"), encode_wrapper("gzip", loops.encode_set(messages))))
        self.put(data)
        expected = [(each.next_position - 1, each.payload) for each in loops.decode_set(data).messages]
        for version in range(4):
            self.assertEqual(values_in(self.part(0, version=version)), expected, version)

    def test_zstd_for_clients_that_do_not_know_it(self) -> None:
        """They get the messages uncompressed."""
        messages = [Message(b"v%d" % number * 20) for number in range(30)]
        self.put(encode_batch(messages, "zstd"), batch(b"a"))
        for version in (4, 9, 10):
            part = self.part(0, version=version)
            self.assertEqual(b"v1v1v1v1" in bytes(part.records), version < 10)
            if version < 10:
                self.assertEqual(len(values_in(part)), 31)

    def test_errors_stand_in_their_places(self) -> None:
        """Each part has an answer, and those without an error have their messages.

        The codes are such as Java's consumer expects here; at others, as LEADER_NOT_AVAILABLE, its poll() fails.
        """
        self.put(PLAIN)
        self.create("u", 2)
        self.log_of("u", 1).go_offline(OSError("gone"))
        request = fetch(("no", 0, 0), ("t", 0, 0), ("u", 0, 0), ("u", 1, 0), ("u", 7, 0), ("t", 0, 99), ("t", 0, 0))
        parts = parts_of(self.ask(self.peer, request))
        self.assertEqual([part.error_code for part in parts], [3, 0, 0, error_codes.KAFKA_STORAGE_ERROR, 3, 1, 0])
        self.assertEqual([len(values_in(part)) for part in parts], [0, 1, 0, 0, 0, 0, 1])

    def test_the_room_goes_round(self) -> None:
        """Partitions for which an answer had no room come first in the next one."""
        self.create("many", 4)
        for partition in range(4):
            self.produce(self.native, "many", batch(b"%d" % partition * 900) * 3, partition)
        offsets = [0] * 4
        for _ in range(4 * 3):
            request = fetch(*(("many", number, offsets[number]) for number in range(4)), all_most=1000)
            parts = parts_of(self.ask(self.peer, request))
            self.assertEqual([part.partition_index for part in parts], [0, 1, 2, 3])
            (served,) = [part for part in parts if part.records]
            offsets[served.partition_index] = behind(served)
        self.assertEqual(offsets, [self.log_of("many", number).visible_end for number in range(4)])


class WaitingTests(FetchTestCase):
    """The time of an answer."""

    def test_it_waits_for_bytes(self) -> None:
        """It comes with the bytes that it asks for, or at the end of its wait with those there are."""
        self.peer.send(fetch(("t", 0, 0), wait_ms=500, min_bytes=100))
        self.put(PLAIN)
        self.assertEqual(self.peer.answers(), [])
        self.put(batch(b"x" * 100))
        (answer,) = self.peer.answers()
        self.assertEqual(values(values_in(parts_of(answer)[0])), [b"plain", b"x" * 100])
        end = self.log_of("t").visible_end
        self.peer.send(fetch(("t", 0, end), wait_ms=500, min_bytes=100))
        self.put(PLAIN)
        self.clock.advance(0.5)
        self.settle()
        (answer,) = self.peer.answers()
        self.assertEqual(values(values_in(parts_of(answer)[0])), [b"plain"])

    def test_a_lost_connection(self) -> None:
        """Nothing is held for it, whether it waits for messages or for a thread."""
        self.put(batch(b"a" * 100), PLAIN)
        self.files.cold = lambda: True
        self.peer.send(fetch(("t", 0, 0)))
        other = self.kafka()
        other.send(fetch(("t", 0, self.log_of("t").visible_end), wait_ms=1000))
        for peer in (self.peer, other):
            peer.lose()
        self.settle()  # check_clean looks for what is left


class DiskTests(FetchTestCase):
    """Pages that are not in the cache, and damage."""

    def file(self) -> bytearray:
        """Return the bytes of the log's one segment."""
        return self.files._inode(f"{self.log_of(self.topic).folder}/{segment_name(0)}").data

    def test_cold_pages(self) -> None:
        """They are read on a thread; what is sent is the same."""
        data = [PLAIN, batch(b"a"), batch(b"x" * LARGE_BATCH_BYTES), batch(b"b")]
        self.put(*data)
        warm = self.read_all()
        self.files.cold = lambda: True
        self.assertEqual(self.read_all(), warm)

    def test_batches_from_the_disk_are_verified(self) -> None:
        """One whose checksum is wrong is left out and logged, once; from a warm page it is sent as it is."""
        large = batch(b"x" * LARGE_BATCH_BYTES)
        for bad in (batch(b"bad" * 20), large):
            with self.subTest(size=len(bad)):
                _, at, behind_it, _ = self.put(batch(b"a"), bad, batch(b"b"))
                self.file()[behind_it - 5] ^= 1
                self.files.cold = lambda: False
                part = self.part(at)
                self.assertGreater(len(bytes(part.records)), len(bad))
                self.files.cold = lambda: True
                self.assertEqual(values(self.read_all(at)), [b"b"])
                self.assertEqual(values(self.read_all(at)), [b"b"])
                self.assertEqual(len(self.events.warnings(f"position {at} is left out")), 1)

    def test_damaged_heads(self) -> None:
        """A client goes on behind them, at the next entry that is known."""
        cases = product(((0, 0x7F), (3, 1), (4, 0x40), (5, 1), (30, 1)), (batch(b"bad" * 20), plain(b"bad" * 20)))
        for number, ((place, change), entry) in enumerate(cases):
            for more in (b"", plain(b"m" * 5000)):
                with self.subTest(place=place, magic=entry[4], more=len(more)):
                    self.topic = f"damaged-{number}-{len(more)}"
                    self.create(self.topic)
                    first, at, behind_it, *_ = self.put(PLAIN, entry, batch(b"b"), *[more] * bool(more), batch(b"c"))
                    self.file()[at + place] ^= change
                    self.files.cold = lambda: True
                    found = values(self.read_all(first))
                    behind_all = [b"b", b"m" * 5000, b"c"] if more else [b"b", b"c"]
                    if place in (5, 30):  # the length is right
                        self.assertEqual(found, [b"plain", *behind_all])
                    elif more:  # the index vouches for the entry behind the many bytes
                        self.assertEqual((found[0], found[-1]), (b"plain", b"c"))
                    else:
                        self.assertEqual(found[0], b"plain")
                    for offset in (at, at + 1, behind_it - 1):
                        found = values(self.read_all(offset))
                        self.assertIn(found, (behind_all, [b"bad" * 20, *behind_all], [b"c"], []))

    def test_a_segment_that_goes(self) -> None:
        """An answer that has begun is sent whole, whatever retention removes."""
        self.put(*[batch(b"%d" % number * 20_000) for number in range(8)])
        peer = self.kafka()
        peer.transport.taking = False
        peer.send(fetch(("t", 0, 0)))
        log = self.log_of("t")
        log._context.open_files.forget(f"{log.folder}/{segment_name(0)}")
        self.files.remove(f"{log.folder}/{segment_name(0)}")
        peer.transport.taking = True
        self.settle()
        (answer,) = peer.answers()
        self.assertEqual(len(values_in(parts_of(answer)[0])), 8)

    def test_a_log_that_changes(self) -> None:
        """Nothing torn is sent: the connection is closed if the log is not what was promised."""
        self.put(*[batch(b"%d" % number * 20_000) for number in range(8)])
        peer = self.kafka()
        peer.transport.taking = False
        peer.send(fetch(("t", 0, 0)))
        data = self.file()
        data[100_000:] = bytes(len(data) - 100_000)
        peer.transport.taking = True
        self.settle()
        self.assertEqual(peer.answers(), [])
        self.assertTrue(peer.lost)
        self.assertEqual(len(self.events.warnings("cannot send a fetch response")), 1)


class SlowPeerTests(FetchTestCase):
    """Answers that wait for their peers."""

    def test_what_is_made_is_bounded(self) -> None:
        """Peers that take nothing hold a bounded part of memory, and all get everything in the end."""
        self.put(loops.encode_set([Message(b"%d" % number * 1000) for number in range(1000)]))
        peers = [self.kafka() for _ in range(30)]
        memory = self.fetch_work().memory
        memory.limit = 8 << 20
        for peer in peers:
            peer.transport.taking = False
            peer.send(fetch(("t", 0, 0), most=8 << 20))
            self.settle()
            self.assertLess(memory.held, memory.limit + 2 * len(peers) * LEAST_BYTES)
        for peer in peers:
            peer.transport.taking = True
        self.settle()
        self.assertEqual(memory.held, 0)
        sizes = []
        for peer in peers:
            (answer,) = peer.answers()
            sizes.append(len(parts_of(answer)[0].records))
            self.assertTrue(bytes(parts_of(answer)[0].records).endswith(b"\0"))
        self.assertGreater(sizes[0], 4 * sizes[-1])
        self.assertGreater(sizes[-1], LEAST_BYTES // 2)

    def test_fetches_that_are_sent_together(self) -> None:
        """The second is answered when the first has left; a connection that is lost meanwhile holds nothing."""
        self.put(*[batch(b"%d" % number * 20_000) for number in range(8)])
        peer = self.kafka()
        peer.transport.taking = False
        peer.send(*[fetch(("t", 0, 0))] * 50)
        self.settle()
        self.assertEqual(peer.connection._conversation.unanswered, 49)
        peer.transport.taking = True
        self.settle()
        self.assertEqual([len(values_in(parts_of(each)[0])) for each in peer.answers()[::10]], [8] * 5)
        peer.transport.taking = False
        peer.send(*[fetch(("t", 0, 0))] * 90)
        peer.lose()
        self.settle()


class BoundsTests(FetchTestCase):
    """Requests that would hold up all others."""

    def test_a_request_with_many_partitions(self) -> None:
        """Up to the bound each part has its answer; beyond it the connection is closed."""
        self.put(batch(b"a" * 1000))
        for count in (5000, MOST_PARTS + 1):
            with self.subTest(count=count):
                head = pack(">hhih", 1, 4, 7, -1) + pack(">iiiibi", -1, 0, 1, 1 << 20, 0, 1) + pack(">h", 1) + b"t"
                body = head + pack(">i", count) + pack(">iqi", 0, 0, 1 << 20) * count
                peer = self.kafka()
                peer.send_bytes(pack(">i", len(body)) + body)
                self.settle()
                if count > MOST_PARTS:
                    self.assertTrue(peer.lost)
                    self.assertEqual(len(self.events.warnings(f"{count} partitions in one request")), 1)
                else:
                    size = len(peer.received())
                    self.assertLess(size, (1 << 20) + 40 * count)
                    self.assertGreater(size, 1 << 19)

    def test_other_requests_that_are_too_large(self) -> None:
        """Requests of the other kinds are bounded in bytes and in items, and have no nulls where none may be."""
        for topics, words in (
            (pack(">i", MOST_ITEMS + 1) + b"\0\1t" * (MOST_ITEMS + 1), "ask for fewer"),
            (pack(">i", 1) + pack(">h", -1), "name is null"),
            (bytes(MOST_BODY_BYTES - 100), ""),
            (bytes(MOST_BODY_BYTES + 1), f"may have {MOST_BODY_BYTES}"),
        ):
            peer = self.kafka()
            conversation: Any = peer.connection._conversation
            conversation._frames.max_frame_bytes = 16 << 20
            body = pack(">hhih", 3, 2, 7, -1) + topics
            peer.send_bytes(pack(">i", len(body)) + body)
            self.settle()
            self.assertEqual(peer.lost, bool(words))
            self.assertEqual(len(self.events.warnings(words)), 1 if words else len(self.events.warnings("")))


class RunTests(FetchTestCase):
    """Runs of batches."""

    def test_a_run(self) -> None:
        """Gaps between batches and pads are not sent; anything else is refused."""
        gap = encode_gap(50).ljust(50, b"\0")
        padded = encode_batch([Message(b"a" * 10)] * 5000, "zstd")
        data = b"".join((batch(b"a"), gap, padded, gap, batch(b"b"), gap))
        run = find_batches(data + PLAIN)
        self.assertEqual((run.consumed, run.end), (len(data), len(data) - 50))
        wire = wire_of_run(data, 1000)
        self.assertEqual(len(wire), run.wire_bytes)
        self.assertLess(size_of(wire), len(data))
        for bad in (data[:-1], data + PLAIN, data[1:]):
            with self.assertRaises(ValueError):
                wire_of_run(bad, 0)
        for most, end in ((run.wire_bytes, run.end), (run.wire_bytes - 1, len(data) - 100 - len(batch(b"b"))), (5, 0)):
            self.assertEqual(find_batches(data, most_bytes=most).end, end)
