"""The cost of one fault alone, before any other: checked at the beginning of some lives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logd.errors import LogdError
from tests.simulation.violation import check

if TYPE_CHECKING:
    from tests.simulation.replication.life import Life

#: Seconds for which producers may be blocked beyond the time after which a slow follower leaves.
GRACE_SECONDS = 5.0
#: Seconds in which a change of the in-sync set that was asked for is made: less than any follower may be behind.
CHANGE_SECONDS = 0.5
#: Seconds of an orderly stop.
STOP_SECONDS = 5.0


def begin_calmly(life: Life) -> None:
    """Make no fault, or one, by the seed, and check what it costs."""
    choice = life.calm or life.world.random("calm").choice(["nothing", "stop", "pause", "damage"])
    if choice == "nothing":
        return
    life.go_on(1.0)
    if choice == "stop":
        stop_the_leader(life)
    elif choice == "pause":
        pause_a_follower(life)
    else:
        damage_the_leader(life)


def stop_the_leader(life: Life) -> None:
    """Stop the leader in order: another in-sync replica leads by then (rule 10)."""
    cluster = life.cluster
    # Until it leads it may not even know of the topic: then the controller finds another leader once it is gone.
    life.go_on(10.0, lambda: cluster.leading_log(0) is not None)
    leader = cluster.leader()
    if leader is None or leader.broker is None:
        return
    stopped: list[object] = []
    leader.stop().addErrback(lambda failure: failure.trap(LogdError)).addBoth(stopped.append)
    done = life.go_on(STOP_SECONDS, lambda: bool(stopped))
    check(done, "rule 10: a broker does not stop in time", leader.host)
    successor = cluster.leader()
    check(
        successor not in (None, leader), "rule 10: a broker stopped, and handed its leadership to nobody", leader.host
    )
    cluster.start(leader)


def pause_a_follower(life: Life) -> None:
    """Let a follower stand still: it leaves the in-sync set soon, so that producers do not wait for it (rule 12).

    While it has everything nobody waits for it, and it may stay. The clients may know no broker but this one.
    """
    cluster = life.cluster
    state = cluster.checker.state(0)
    if state is None:
        return
    others = [number for number in state.in_sync if number != state.leader]
    clock = cluster.brokers[others[0]].clock if others else None
    if clock is None:
        return
    clock.pause()
    lag = cluster.brokers[0].settings.replication.replica_lag_ms / 1000

    def has_left() -> bool:
        now = cluster.checker.state(0)
        return now is not None and others[0] not in now.in_sync

    def has_everything() -> bool:
        log, store = cluster.leading_log(0), cluster.brokers[others[0]].store
        copy = None if store is None else store.log(cluster.checker.topic, 0)
        return log is not None and copy is not None and copy.end == log.end

    left = life.go_on(lag + GRACE_SECONDS, has_left) or has_everything()
    check(left, "rule 12: a follower that stands still stays in sync", cluster.brokers[others[0]].host, lag)
    clock.resume()


def damage_the_leader(life: Life) -> None:
    """Let a sync of the leader fail: it gives up its leadership to another in-sync replica (rule 8)."""
    cluster = life.cluster
    leader = cluster.leader()
    state = cluster.checker.state(0)
    if leader is None or leader.store is None or state is None or len(state.in_sync) < 2:
        return
    leader.files.fail_syncs = 1

    def has_given_up() -> bool:
        return cluster.leader() not in (None, leader)

    log = leader.store.log(cluster.checker.topic, 0)

    def is_damaged() -> bool:
        return log is None or log.offline is not None

    if life.go_on(2.0, is_damaged):
        if not life.go_on(CHANGE_SECONDS, has_given_up):
            # The leader may have asked for a smaller set before its log was damaged.
            state = cluster.checker.state(0)
            if state is not None and state.in_sync == (state.leader,):
                return
        given_up = life.go_on(GRACE_SECONDS, has_given_up)
        check(given_up, "rule 8: a leader that cannot serve its log leads on", leader.host, cluster.checker.state(0))
