"""A test case for following files: a disk in memory and a follower of it."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.collect.cutting import Rules
from logd.collect.follower import Follower, FollowSettings
from logd.collect.state import State, decode_state, encode_state
from tests.collect.doubles import MemoryDisk

#: A line long enough to identify a file by its content.
LONG = b"x" * 70 + b"\n"


class FollowerTestCase(SynchronousTestCase):
    """A disk in memory and a follower of /l/*.log."""

    def setUp(self) -> None:
        """Make an empty disk and a follower of it."""
        self.disk = MemoryDisk()
        self.now = 0.0
        self.notices: list[str] = []
        self.options: dict[str, Any] = {}
        self.follower = self.begin()

    def begin(self, restored: State | None = None, **more: Any) -> Follower:
        """Make a new follower, with other options."""
        self.options = {"patterns": ["/l/*.log"], "rules": Rules(1000), **self.options, **more}
        self.follower = Follower(self.disk, lambda: self.now, FollowSettings(**self.options), restored)
        return self.follower

    def again(self, **more: Any) -> Follower:
        """Acknowledge all, crash, and make a follower that goes on from the state."""
        for source in self.follower.tracker.sources.values():
            source.acknowledged = source.mark
        state = encode_state("t", self.follower.tracker.state)
        self.disk.crash()
        return self.begin(decode_state(state, "t"), **more)

    def lines(self, seconds: float = 1.0) -> list[bytes]:
        """Let ``seconds`` pass and return the lines that come, until there are no more."""
        self.now += seconds
        found = []
        for _ in range(100):
            harvest = self.follower.step()
            self.notices += harvest.notices
            found += [line for piece in harvest.pieces for line in piece.lines]
            if harvest.idle and not harvest.pieces:
                return found
        self.fail("it does not come to rest")

    def noticed(self, *words: str) -> None:
        """Assert that there was one notice since the last call, with these words; without words that there was none."""
        self.assertEqual(len(self.notices), bool(words), self.notices)
        for word in words:
            self.assertIn(word, self.notices[0])
        self.notices.clear()
