"""Tests of logd.coord.groups.assignment, and of the shares that the registries' view makes of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.coord.groups.assignment import assign
from logd.coord.groups.registry_view import Registries
from logd.coord.registries.consumers import PatternStreams, Subscription
from logd.topic import TopicPartition

_NAMES = st.text("abc-.0129", min_size=1, max_size=6)


class AssignmentTests(SynchronousTestCase):
    """Algorithm 1 of the paper, with the remainder spread."""

    def test_consecutive_partitions_go_to_one_stream(self) -> None:
        """Partitions are sorted by number, streams by text; the first ones have one more."""
        self.assertEqual(
            assign([10, 2, 1, 0, 3], ["c-10", "c-2"]),
            {"c-10": (0, 1, 2), "c-2": (3, 10)},
        )
        self.assertEqual(assign([0], ["b", "a"]), {"a": (0,), "b": ()})
        self.assertEqual(assign([], ["a"]), {"a": ()})
        self.assertEqual(assign([1], []), {})

    @given(st.lists(st.integers(0, 10_000)), st.lists(_NAMES, min_size=1), st.randoms())
    def test_every_partition_has_one_owner(self, partitions: list[int], streams: list[str], random: object) -> None:
        """Shares differ by one at most, and do not depend on the order of the arguments."""
        shares = assign(partitions, streams)
        self.assertEqual(sorted(number for share in shares.values() for number in share), sorted(set(partitions)))
        self.assertEqual(set(shares), set(streams))
        sizes = [len(share) for share in shares.values()]
        self.assertLessEqual(max(sizes) - min(sizes), 1)
        shuffled = list(partitions), list(streams)
        for each in shuffled:
            random.shuffle(each)  # type: ignore[attr-defined]
        self.assertEqual(assign(*shuffled), shares)

    @given(
        st.dictionaries(_NAMES, st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=8),
        st.dictionaries(st.sampled_from(["t", "u", "uu"]), st.sets(st.integers(0, 30))),
    )
    def test_all_consumers_compute_one_assignment(
        self, consumers: dict[str, tuple[int, int]], topics: dict[str, set[int]]
    ) -> None:
        """Each computes its own part, without a word to the others."""
        subscriptions = {
            name: Subscription({"t": named} if named else {}, (PatternStreams("u+", matched),) if matched else ())
            for name, (named, matched) in consumers.items()
        }
        registries = Registries(subscriptions, {topic: tuple(sorted(numbers)) for topic, numbers in topics.items()})
        together: dict[TopicPartition, str] = {}
        for name in consumers:
            share = registries.share(name)
            self.assertFalse(share.keys() & together.keys())
            together.update(share)
        for topic, numbers in topics.items():
            streams = [
                f"{name}-{index}" for name, each in subscriptions.items() for index in range(each.streams_of(topic))
            ]
            whole = {
                TopicPartition(topic, number): stream
                for stream, share in assign(numbers, streams).items()
                for number in share
            }
            self.assertEqual({w: s for w, s in together.items() if w.topic == topic}, whole)
