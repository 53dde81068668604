"""The events of a run's audit between its commit and their publication, kept in the target.

An import that is killed after its commit, and before its events are acknowledged, leaves the file ``_audit/<uuid>``,
which the next import publishes. The file is written before the commit, so the run with its number and uuid decides
whether the events are true. Events that came twice have the same reporter and sequence numbers, and count once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence

from attrs import frozen

from logd.audit.event import AUDIT_TOPIC, AuditEvent, decode_event, encode_event
from logd.errors import LogdError
from logd.plurals import counted
from logd.protocol.message import Message
from logd.spark.blocking.cluster import BlockingCluster
from logd.spark.blocking.producing import ExecutorProducer
from logd.spark.importer.errors import TargetError
from logd.spark.importer.targets.layout import AUDIT
from logd.spark.importer.targets.target import Target, read_run


@frozen
class RunCounts:
    """The events of run number ``run`` with this uuid, encoded."""

    run: int
    uuid: str
    events: Sequence[bytes]

    @classmethod
    def of(cls, run: int, uuid: str, events: Sequence[AuditEvent]) -> RunCounts:
        """Return the counts of a run."""
        return cls(run, uuid, tuple(map(encode_event, events)))

    @classmethod
    def from_bytes(cls, content: bytes, uuid: str) -> RunCounts:
        """Read the content of a file. Raises ValueError for anything else."""
        try:
            value = json.loads(content)
            counts = cls(int(value["run"]), str(value["uuid"]), tuple(str(each).encode() for each in value["events"]))
        except (KeyError, TypeError) as error:
            raise ValueError(repr(error)) from None
        for each in counts.events:
            if decode_event(each).reporter.instance != uuid or counts.uuid != uuid:
                raise ValueError("it is of another run")
        return counts

    def to_bytes(self) -> bytes:
        """Return the content of a file."""
        events = [each.decode() for each in self.events]
        return json.dumps({"run": self.run, "uuid": self.uuid, "events": events}, indent=1).encode() + b"\n"


def keep(target: Target, counts: RunCounts) -> None:
    """Store the counts of a run that is about to be committed."""
    target.notes.put(_name(counts.uuid), counts.to_bytes())


def publish_kept(
    target: Target, cluster: BlockingCluster, counts: RunCounts, clock: Callable[[], float] = time.time
) -> str | None:
    """Publish the kept counts of a run that is committed, and forget them; return a notice if that failed."""
    producer = ExecutorProducer(cluster)
    try:
        for event in counts.events:
            message = Message(event, key=counts.uuid.encode(), timestamp=round(clock() * 1000))
            producer.send(AUDIT_TOPIC, message)
        producer.flush()
    except LogdError as error:
        return (
            f"run {counts.run} is complete, but its counts were not published to {AUDIT_TOPIC}: {error}; the next "
            "import tries again"
        )
    try:
        target.notes.remove(_name(counts.uuid))
    except (OSError, TargetError) as error:
        return f"the counts of run {counts.run} are published, and will be once more, which is harmless: {error}"
    return None


def publish_left(target: Target, cluster: BlockingCluster, clock: Callable[[], float] = time.time) -> list[str]:
    """Publish what former imports have left, and return notices. Raises TargetError if the target is damaged.

    Counts of runs that were never committed are forgotten, and those of a run to come are left to its import, which may
    be running on a file system without locks.
    """
    notices = []
    left = []
    for uuid in target.notes.names(AUDIT):
        try:
            left.append(RunCounts.from_bytes(target.notes.read(_name(uuid)) or b"", uuid))
        except ValueError as error:
            target.notes.remove(_name(uuid))
            notices.append(f"{target.location}/{_name(uuid)} was damaged, and is removed: {error}")
    for counts in sorted(left, key=lambda each: each.run):
        committed = _is_committed(target, counts)
        if committed is False:
            target.notes.remove(_name(counts.uuid))
        elif committed:
            failure = publish_kept(target, cluster, counts, clock)
            if failure is not None:
                return [*notices, failure]  # it would be the same with all others
            notices.append(
                f"run {counts.run} was committed without publishing its counts to {AUDIT_TOPIC}; "
                f"{counted(len(counts.events), 'event')} published now"
            )
    return notices


def _is_committed(target: Target, counts: RunCounts) -> bool | None:
    """Return whether the target has the run, by itself or merged into another; None if it has no such number yet."""
    behind = [number for number in target.runs() if number >= counts.run]
    if not behind:
        return None
    found = read_run(target, behind[0])
    return counts.uuid in (found.uuid, *(each.uuid for each in found.merged))


def _name(uuid: str) -> str:
    return f"{AUDIT}/{uuid}"
