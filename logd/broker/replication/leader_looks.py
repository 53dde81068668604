"""Has the leaders of one broker look at their followers: twice a second, and when brokers have come or gone."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from attrs import define, field

from logd.broker.replication.in_sync_set import InSyncLog
from logd.broker.replication.leader import LeaderRole
from logd.deferreds.repeating import RepeatedCall
from logd.interfaces import Clock, Timer

#: Seconds between two looks for followers that have fallen behind.
LOOK_SECONDS = 0.5
#: Leaders that look in one turn of the reactor: some 40 milliseconds if all of them change their in-sync sets.
LOOKED_AT_ONCE = 200


@define(eq=False)
class LeaderLooks:
    """The looks of all leaders, in turns of LOOKED_AT_ONCE: a broker may lead thousands of partitions."""

    _clock: Clock
    #: Returns the leaders here.
    _leaders: Callable[[], Iterable[LeaderRole]]
    #: Called at each look as well.
    _also: Callable[[], None]
    _loop: RepeatedCall | None = field(default=None, init=False)
    _waiting: deque[LeaderRole] = field(factory=deque, init=False)
    _timer: Timer | None = field(default=None, init=False)
    #: The leaders for which time alone may change something. They add and remove themselves.
    looking: dict[LeaderRole, None] = field(factory=dict, init=False)
    #: Logs the changes of their in-sync sets.
    in_sync_log: InSyncLog = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.in_sync_log = InSyncLog(self._clock)

    def start(self) -> None:
        """Begin to look."""
        self._loop = RepeatedCall(self._clock, LOOK_SECONDS, self._look)
        self._loop.start()

    def stop(self) -> None:
        """Look no more."""
        if self._loop is not None:
            self._loop.stop()
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.in_sync_log.stop()

    def all(self) -> None:
        """Have all leaders look: the first ones now, the others in the next turns of the reactor."""
        self._waiting.extend(self._leaders())
        if self._timer is None:
            self._go_on()

    def _look(self) -> None:
        """Have those leaders look for which something may have changed."""
        if not self._waiting:
            self._waiting.extend(self.looking)
            self._go_on()
        self._also()

    def _go_on(self) -> None:
        self._timer = None
        for _ in range(min(LOOKED_AT_ONCE, len(self._waiting))):
            self._waiting.popleft().look()
        if self._waiting:
            self._timer = self._clock.callLater(0, self._go_on)
