"""Tests of logd.mirror.positions.pair_search: how much of a long history is read at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, cast

from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from logd.mirror.positions.pair_search import MOST_STEP, PairSearch
from logd.protocol.requests.describe_log import DescribeLogResponse

#: The end of the log.
END = 20 * MOST_STEP + 7


@define(eq=False)
class _LongHistory:
    """A stand-in for the admin, and for consumers, of a log of pairs."""

    read: list[tuple[int, int]] = field(factory=list)
    _begin: int = 0

    async def describe_log(self, topic: str, partition: int, positions: Sequence[int] = ()) -> DescribeLogResponse:
        """Return a log with a boundary everywhere."""
        return DescribeLogResponse(0, log_start=5, log_end=END, visible_end=END, boundaries=tuple(positions))

    def create_message_streams(
        self, topic: str, number: int, partitions: Sequence[int], start: Mapping[int, int]
    ) -> Sequence[_LongHistory]:
        """Return the one stream."""
        self._begin = start[0]
        return [self]

    async def batches(self, until: Mapping[int, int]) -> AsyncIterator[Any]:
        """Yield nothing."""
        self.read.append((self._begin, until[0]))
        nothing: Sequence[Any] = ()
        for batch in nothing:
            yield batch

    def close(self) -> Deferred[None]:
        """Do nothing."""
        return succeed(None)


class PairSearchTests(SynchronousTestCase):
    """``PairSearch``."""

    def test_a_step_back_is_bounded(self) -> None:
        """The pairs of one step are held in memory; those of a group that is hours behind are many gigabytes."""
        history = _LongHistory()
        search = PairSearch(cast(Any, history), lambda: cast(Any, history))

        async def read_all() -> None:
            async for pairs in search.backwards():
                self.assertEqual(pairs, [])

        self.successResultOf(Deferred.fromCoroutine(read_all()))
        self.assertEqual((history.read[0][1], history.read[-1][0]), (END, 5))
        for (begin, _), (_, end) in zip(history.read, history.read[1:], strict=False):
            self.assertEqual(begin, end)
        self.assertEqual(max(end - begin for begin, end in history.read), MOST_STEP)
