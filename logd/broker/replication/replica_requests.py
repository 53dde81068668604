"""The requests of a follower on one connection: what it follows, what it is sent, what it has flushed."""

from __future__ import annotations

from attrs import define, field
from twisted.internet.defer import Deferred

from logd.broker.replication.followers import FollowerProgress
from logd.broker.replication.leader import LeaderRole
from logd.broker.replication.replica_manager import ReplicaManager
from logd.errors import LogdError, NotLeader, OffsetOutOfRange, StaleLeaderEpoch, WireError
from logd.interfaces import Clock, Timer
from logd.protocol.requests.replica_fetch import (
    ReplicaFetch,
    ReplicaFetchedPart,
    ReplicaFetchResponse,
    ReplicaFetchV1,
    ReplicaPart,
    ReplicaProgress,
)

#: The longest wait of a request, in milliseconds.
LONGEST_WAIT_MS = 60_000
#: The most bytes of one answer.
MOST_BYTES = 128 << 20

#: The most partitions of an answer of which there are bytes or an error, and the most of which it tells the ends alone:
#: each some 20 milliseconds of a turn here, and at the follower. The others come next.
MOST_SENT = 500

Place = tuple[str, int]


@define(eq=False)
class _FollowedPart:
    """A partition that a connection follows. See ``logd.broker.replication.leader.FollowerListener``."""

    _session: ReplicaRequests
    part: ReplicaPart
    role: LeaderRole | None = None
    progress: FollowerProgress | None = None
    #: True from the request that names it until bytes or an error were sent.
    is_wanted: bool = True
    #: True if the follower's log was found to be the beginning of the leader's.
    is_equal: bool = False
    #: The ends that the follower was told last.
    told_start: int = -1
    told_visible: int = -1
    #: The position of the bytes that it was sent last, and their number.
    sent: tuple[int, int] = (-1, 0)

    @property
    def place(self) -> Place:
        """The topic and the partition."""
        return self.part.topic, self.part.partition

    def grown(self) -> None:
        """See FollowerListener."""
        self._session.ready(self)

    def shown(self) -> None:
        """See FollowerListener."""
        self._session.shown(self)

    def forgotten(self) -> None:
        """See FollowerListener."""
        self._session.forgotten(self)

    def begun(self) -> None:
        """See EarlyFollower."""
        self._session.begun(self)


@define(eq=False)
class ReplicaRequests:
    """The ReplicaFetch and ReplicaProgress requests of one connection."""

    _manager: ReplicaManager
    _clock: Clock
    _parts: dict[Place, _FollowedPart] = field(factory=dict, init=False)
    #: Partitions that may have something to send.
    _ready: dict[_FollowedPart, None] = field(factory=dict, init=False)
    #: Partitions that this broker may be about to lead: they are not refused before a request's time is over.
    _early: dict[_FollowedPart, None] = field(factory=dict, init=False)
    #: Partitions whose ends the follower may not know.
    _shown: dict[_FollowedPart, None] = field(factory=dict, init=False)
    #: True if the last answer had no room for all of them: the next one does not wait.
    _has_more_news: bool = field(default=False, init=False)
    _broker: int = field(default=-1, init=False)
    _request: ReplicaFetch | ReplicaFetchV1 | None = field(default=None, init=False)
    _answer: Deferred[ReplicaFetchResponse] | None = field(default=None, init=False)
    _timer: Timer | None = field(default=None, init=False)
    _soon: Timer | None = field(default=None, init=False)
    #: Ends when bytes that the throttle holds back may be sent.
    _held: Timer | None = field(default=None, init=False)
    _lost: bool = field(default=False, init=False)

    def fetch(self, request: ReplicaFetch | ReplicaFetchV1) -> ReplicaFetchResponse | Deferred[ReplicaFetchResponse]:
        """Send what is new of the partitions that this connection follows, or wait for it."""
        if self._answer is not None:
            self._send()
        if self._broker not in (-1, request.broker):
            self._forget_all()
        self._broker = request.broker
        for place in request.forgotten:
            self._forget(place, left=True)
        for part in request.parts:
            self._follow(request, part)
        self._request = request
        response = self._read(wait=request.max_wait_ms > 0)
        if response is not None:
            return response
        self._answer = Deferred()
        self._timer = self._clock.callLater(min(request.max_wait_ms, LONGEST_WAIT_MS) / 1000, self._time_is_over)
        return self._answer

    def progress(self, request: ReplicaProgress) -> None:
        """Take note of what the follower has flushed."""
        for part in request.parts:
            followed = self._parts.get((part.topic, part.partition))
            if followed is None or followed.role is None or followed.progress is None or not followed.is_equal:
                continue
            if followed.progress.session is not followed:
                continue  # an earlier connection: the follower has said later what it has, which may be less
            if followed.role.epoch == part.leader_epoch and self._is_current(followed):
                followed.role.progressed(followed.progress, min(part.flushed_end, followed.role.log.end))

    def ready(self, part: _FollowedPart) -> None:
        """Note that there may be something to send."""
        if part.is_wanted and not self._lost:
            self._ready[part] = None
            if self._answer is not None and self._soon is None:
                self._soon = self._clock.callLater(0, self._send_ready)

    def shown(self, part: _FollowedPart) -> None:
        """Note that the next answer is to tell a visible end."""
        if not self._lost:
            self._shown[part] = None

    def forgotten(self, part: _FollowedPart) -> None:
        """Refuse a partition, so that the follower names it again: the leader has forgotten what it has."""
        part.role = part.progress = None
        part.is_wanted = True
        self.ready(part)

    def begun(self, early: _FollowedPart) -> None:
        """Follow a partition that was asked for early, and that this broker leads now."""
        if self._early.pop(early, early) is None and self._request is not None and not self._lost:
            self._follow(self._request, early.part)
            self.ready(self._parts[early.place])

    def finish(self) -> None:
        """Answer now, as the broker is stopping."""
        if self._answer is not None:
            self._send()

    def lost(self) -> None:
        """Forget everything: the connection is lost."""
        self._lost = True
        self._forget_all()
        self._answer = None
        for timer in (self._timer, self._soon, self._held):
            if timer is not None and timer.active():
                timer.cancel()

    # Internals

    def _follow(self, request: ReplicaFetch | ReplicaFetchV1, part: ReplicaPart) -> None:
        place = (part.topic, part.partition)
        role = self._manager.leader(*place)
        followed = self._parts.get(place)
        # The topic was made again, and one of the two brokers does not know that yet. Both topics may be in the same
        # epoch, and one log may look like the beginning of the other: what the follower has flushed would count for
        # messages that it does not have, or the bytes of the one topic would get into the other.
        is_other = role is not None and bool(part.uuid) and part.uuid != role.state.uuid
        may_follow = role is not None and not is_other and role.may_follow(request.broker, request.instance)
        is_stored = self._manager.replica(*place) is not None
        is_early = is_stored and not is_other and request.max_wait_ms > 0 and _is_early(role, part)
        if followed is not None and (followed.role is not role or not may_follow or is_early):
            self._forget(place)
            followed = None
        if followed is None:
            followed = self._parts[place] = _FollowedPart(self, part)
        followed.part, followed.is_wanted, followed.is_equal = part, True, False
        followed.told_start = followed.told_visible = -1  # what was told last may not have been taken
        if is_early:  # refused, it would be asked for again and again until this broker leads, with many others
            self._early[followed] = None
            self._manager.early_followers.expect(followed.place, followed)
            return
        self._ready[followed] = self._shown[followed] = None
        if role is None or role.epoch != part.leader_epoch or role.epoch_start is None or not may_follow:
            return  # answered as if this broker did not lead, until both know the same
        if followed.progress is None or followed not in followed.progress.sessions:
            followed.role = role
            followed.progress = role.follow(request.broker, request.instance, followed)
        if followed.progress.session is not followed:
            return  # as for progress
        if _divergence(role, part) is None and part.position >= role.log.start:
            followed.is_equal = True
            if part.position == followed.sent[0]:  # asked for again: they may have been refused
                self._manager.on_repeated(role.log, *followed.sent)
            role.fetched(followed.progress, part.position, min(part.flushed_end, part.position))
        else:
            role.diverged(followed.progress)

    def _forget(self, place: Place, *, left: bool = False) -> None:
        """Follow a partition no more; ``left``: as the follower has said."""
        followed = self._parts.pop(place, None)
        if followed is not None:
            self._ready.pop(followed, None)
            self._shown.pop(followed, None)
            if self._early.pop(followed, followed) is None:
                self._manager.early_followers.expect_no_more(followed.place, followed)
            if followed.role is not None:
                followed.role.gone(self._broker, followed, left=left)

    def _forget_all(self) -> None:
        for place in tuple(self._parts):
            self._forget(place)

    def _is_current(self, followed: _FollowedPart) -> bool:
        return self._manager.leader(followed.part.topic, followed.part.partition) is followed.role

    def _send_held(self) -> None:
        self._held = None
        if self._ready:
            self._send_ready()

    def _send_ready(self) -> None:
        if self._soon is not None and self._soon.active():
            self._soon.cancel()
        self._soon = None
        if self._answer is not None:
            response = self._read(wait=True)
            if response is not None:
                self._answer_with(response)

    def _time_is_over(self) -> None:
        """Answer with what there is, and refuse what this broker still does not lead."""
        for early in self._early:
            self._manager.early_followers.expect_no_more(early.place, early)
        self._ready.update(self._early)
        self._early.clear()
        self._send()

    def _send(self) -> None:
        """Answer with what there is."""
        response = self._read(wait=False)
        assert response is not None
        self._answer_with(response)

    def _answer_with(self, response: ReplicaFetchResponse) -> None:
        answer, self._answer = self._answer, None
        for timer in (self._timer, self._soon):
            if timer is not None and timer.active():
                timer.cancel()
        self._timer = self._soon = None
        if answer is not None:
            answer.callback(response)

    def _read(self, *, wait: bool) -> ReplicaFetchResponse | None:
        """Return what there is to send; None if that is nothing, and the request may ``wait``."""
        assert self._request is not None
        room = min(max(self._request.max_bytes, 0), MOST_BYTES)
        sent: list[ReplicaFetchedPart] = []
        left: dict[_FollowedPart, None] = {}
        delay = 0.0
        for followed in self._ready:
            held = self._hold_seconds(followed)
            if room <= 0 or held or len(sent) >= MOST_SENT:
                left[followed] = None
                delay = min(delay or held, held) if held else delay
                continue
            part = self._read_part(followed, room)
            if part is not None:
                sent.append(part)
                count = part.message_set.count if part.message_set else 0
                room -= count
                if count and self._catches_up(followed):
                    self._manager.throttle.sent(part.topic, count)
        self._ready = left
        if delay and self._held is None and not self._lost:
            self._held = self._clock.callLater(delay, self._send_held)
        if not sent and wait and not self._has_more_news:
            return None
        sent += self._news({(each.topic, each.partition) for each in sent})
        if not sent and wait:
            return None
        return ReplicaFetchResponse(0, tuple(sent))

    def _catches_up(self, followed: _FollowedPart) -> bool:
        """Return whether the follower is not in sync, so that nobody waits for it."""
        return followed.role is not None and self._broker not in followed.role.in_sync

    def _hold_seconds(self, followed: _FollowedPart) -> float:
        """Return the seconds for which a follower that catches up is sent no more bytes; 0 for any other."""
        return self._manager.throttle.delay(followed.part.topic) if self._catches_up(followed) else 0.0

    def _read_part(self, followed: _FollowedPart, room: int) -> ReplicaFetchedPart | None:
        """Return bytes or an error for a partition; None if there is neither."""
        part, role = followed.part, followed.role
        where, at = (part.topic, part.partition), (part.leader_epoch, part.position)
        current = self._manager.leader(*where)
        if current is None or current.epoch_start is None or current is not role or role.epoch != part.leader_epoch:
            followed.is_wanted = False
            if role is None:
                self._parts.pop(where, None)  # so that requests for what is not led here cost no memory
                self._shown.pop(followed, None)
            stale = current is not None and current.epoch_start is not None
            return ReplicaFetchedPart(*where, StaleLeaderEpoch.code if stale else NotLeader.code, *at)
        log = role.log
        diverging = _divergence(role, part)
        if diverging is not None:
            followed.is_wanted = False
            return ReplicaFetchedPart(*where, 0, *at, log.start, log.visible_end, *diverging)
        if part.position < log.start:
            followed.is_wanted = False
            return ReplicaFetchedPart(*where, OffsetOutOfRange.code, *at, log.start, log.visible_end)
        if part.position >= log.end:
            return None
        try:
            following = role.history.next_start(part.position)
            found = log.read_appended(part.position, room, log.end if following is None else following)
        except LogdError as error:
            followed.is_wanted = False
            code = error.code if isinstance(error, WireError) else -1
            return ReplicaFetchedPart(*where, code, *at, log.start, log.visible_end)
        if found is None:
            return None
        followed.is_wanted = False
        followed.told_start, followed.told_visible = log.start, log.visible_end
        followed.sent = part.position, found.count
        epoch = role.history.at(part.position)
        return ReplicaFetchedPart(*where, 0, *at, log.start, log.visible_end, epoch, -1, found)

    def _news(self, sent: set[Place]) -> list[ReplicaFetchedPart]:
        """Return ends that the follower was not told yet, MOST_SENT at most.

        Only where its log is the beginning of this one. There may have been no room yet to say where they diverge: the
        follower would show its own bytes as visible ones, and refuse for ever to cut them off.
        """
        news: list[ReplicaFetchedPart] = []
        while self._shown and len(news) < MOST_SENT:
            followed = next(iter(self._shown))
            del self._shown[followed]
            role, place = followed.role, (followed.part.topic, followed.part.partition)
            if place in sent or role is None or not followed.is_equal or not followed.is_wanted:
                continue
            if not self._is_current(followed):
                continue
            log = role.log
            if (followed.told_start, followed.told_visible) != (log.start, log.visible_end):
                followed.told_start, followed.told_visible = log.start, log.visible_end
                at = (role.epoch, followed.part.position)
                news.append(ReplicaFetchedPart(*place, 0, *at, log.start, log.visible_end))
        self._has_more_news = bool(self._shown)
        return news


def _is_early(role: LeaderRole | None, part: ReplicaPart) -> bool:
    """Return whether a follower may know of a leadership before the leader does, or before that is ready."""
    if role is None or role.epoch < part.leader_epoch:
        return True
    return role.epoch == part.leader_epoch and role.epoch_start is None


def _divergence(role: LeaderRole, part: ReplicaPart) -> tuple[int, int] | None:
    """Return the leader's epoch and its end where a follower's log differs from the leader's; None if it does not."""
    found = role.history.end_of(part.last_epoch, role.log.end)
    if found.epoch == part.last_epoch and part.position <= found.end:
        return None
    if part.position <= role.log.start:  # the follower has nothing that the leader's log still has
        return None
    return found.epoch, found.end
