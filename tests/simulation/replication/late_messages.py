"""Messages that are sent once all faults are over, in lives whose leaders gather them: nobody waits longer for that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.replication.producers import Producing
from tests.simulation.violation import check

if TYPE_CHECKING:
    from tests.simulation.replication.life import Life

#: Seconds for which followers may be behind, beyond ``replica.lag.ms``, before they are known to be slow.
LOOKED_SECONDS = 3.0
#: Seconds in which all is well again, beyond ``flush.ms``.
GRACE_SECONDS = 10.0
#: The most changes of a partition's state meanwhile: planned moves of its leader, and a follower that was cut off.
MOST_CHANGES = 6
#: Numbers of messages with acks=1 to each partition: fewer and more than ``flush.messages`` is in some lives.
COUNTS = (1, 6)


def send_late_messages(life: Life) -> None:
    """Send messages with acks=1, and check that all is well with them; then the same with acks=-1.

    The former are gathered by their leaders, and shown in time. Followers have them on their disks at once, so all stay
    in sync. The latter wait for neither setting.
    """
    cluster = life.cluster
    lag = cluster.brokers[0].settings.replication.replica_lag_ms / 1000
    one, everyone = Producing(cluster, "late-one", 1), Producing(cluster, "late-all", -1)
    life.producers += [one, everyone]
    count, before = life.world.random("late messages").choice(COUNTS), versions(life)
    for partition in range(cluster.partitions):
        for _ in range(count):
            one.send(partition)
    life.go_on(lag + LOOKED_SECONDS)
    life.wait_until_well(cluster.gathering.seconds + GRACE_SECONDS, "gathered messages")
    changed = [after - former for former, after in zip(before, versions(life), strict=True)]
    check(max(changed) <= MOST_CHANGES, "followers leave and join the in-sync set while nothing fails", changed)
    for partition in range(cluster.partitions):
        everyone.send(partition)
    life.wait_until_well(GRACE_SECONDS, "messages with acks=-1 beside gathered ones")


def versions(life: Life) -> list[int]:
    """Return how often the state of each partition was written."""
    return [life.cluster.checker.version(partition) for partition in range(life.cluster.partitions)]
