"""The invariants of replication once all faults have ended: liveness, equal replicas, sound epoch files and indexes."""

from __future__ import annotations

from attrs import define

from logd.broker.replication.leader import LeaderRole
from logd.coord import paths
from logd.log.damage.inspection import SegmentInspection, read_places
from logd.log.epochs.epoch_file import read_epochs
from logd.log.epochs.search import find_epochs
from logd.log.partition import PartitionLog
from logd.protocol.checksums import CHECKSUMS
from logd.testing.memory.broker import MemoryBroker
from tests.simulation.replication.contents import bytes_of
from tests.simulation.replication.gathering import may_gather
from tests.simulation.replication.invariants.checker import Checker
from tests.simulation.violation import check


@define(eq=False)
class Ends:
    """The rules that must hold of one topic in the end."""

    checker: Checker

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self.checker.topic

    def problems(self) -> list[str]:
        """Return what is not as it must be yet, now that there are no more faults."""
        found = []
        replicas = self.checker.replicas()
        if not replicas:
            return [f"{self.topic}: the tree has no entry"]
        server = self.checker.tree.server
        if server is not None and paths.reassignment(self.topic) in server.tree.nodes:
            found.append(f"{self.topic}: a reassignment goes on")
        for partition, brokers in replicas.items():
            found += self._problems_of(partition, brokers)
        return found

    def _problems_of(self, partition: int, replicas: tuple[int, ...]) -> list[str]:
        where = f"{self.topic}-{partition}"
        state = self.checker.state(partition)
        if state is None or set(state.in_sync) != set(replicas) or state.last or state.leader not in replicas:
            return [f"{where}: not all of {replicas} are in sync: {state}"]
        found, ends = [], set()
        shown = self._shown(partition, state.leader)
        for broker in self.checker.brokers:
            if broker.settings.id not in replicas:
                continue
            log = None if broker.store is None else broker.store.log(self.topic, partition)
            if log is None or log.offline is not None or broker.broker is None or broker.store is None:
                found.append(f"{where}: {broker.host} has no log, or it is offline: {log and log.offline}")
                continue
            ends.add((log.end, log.visible_end))
            if log.visible_end != (log.end if shown is None else shown):
                found.append(f"{where}: {broker.host} shows {log.visible_end} of {log.end}")
            if log.flushed_end != log.end and not may_gather(log):
                found.append(f"{where}: {broker.host} has flushed {log.flushed_end} of {log.end}")
            if isinstance(log.replica, LeaderRole) and not log.replica.knows_visible_end:
                found.append(f"{where}: {broker.host} does not know its visible end")
            if state.instances.get(broker.settings.id or 0) != broker.store.instance:
                found.append(f"{where}: {broker.host} counts with another directory: {state}")
            known = broker.broker.replication.states.get(self.topic, partition)
            if known is None or known.state != state:
                found.append(f"{where}: {broker.host} does not know the state: {known}")
        if len(ends) > 1:
            found.append(f"{where}: different ends {ends}")
        return found

    def _shown(self, partition: int, leader: int) -> int | None:
        """Return the flushed end of a leader that gathers messages, None if it is to show all that it has."""
        store = self.checker.brokers[leader].store
        log = None if store is None else store.log(self.topic, partition)
        return log.flushed_end if log is not None and may_gather(log) else None

    def check(self) -> None:
        """Check that all replicas are equal, and that their epoch files and indexes tell what the logs hold."""
        for partition, replicas in self.checker.replicas().items():
            logs: list[tuple[MemoryBroker, PartitionLog]] = []
            for broker in self.checker.brokers:
                log = None if broker.store is None else broker.store.log(self.topic, partition)
                if log is not None and broker.settings.id in replicas:
                    logs.append((broker, log))
            start = max(log.start for _, log in logs)
            contents = {bytes_of(broker, log, start, log.end) for broker, log in logs}
            check(len(contents) == 1, "I3: replicas differ in the end", self.topic, partition, list(map(len, contents)))
            for broker, log in logs:
                self._check_epochs(broker, log)
                self._check_indexes(broker, log)

    def _check_epochs(self, broker: MemoryBroker, log: PartitionLog) -> None:
        written = read_epochs(broker.files, log.folder).cut(log.end)
        marks = find_epochs(broker.files, log.snapshot(log.end))
        # A log that begins within an epoch, or with it, does not tell more of that epoch.
        behind, told = ([each for each in history.starts if each.start > log.start] for history in (written, marks))
        check(behind == told, "I9: the epoch file differs from the log", broker.host, log.folder, written, marks)

    def _check_indexes(self, broker: MemoryBroker, log: PartitionLog) -> None:
        for place in read_places(broker.files, log.folder).segments:
            with SegmentInspection.open(broker.files, place, CHECKSUMS) as inspection:
                for _ in inspection.run():
                    pass
                wrong = inspection.walk.misplaced
                check(
                    wrong < 0, "I10: an index names no entry's beginning", broker.host, log.folder, place.start, wrong
                )
                read = [each for each in inspection.damages if place.start + each.end > log.start]
                damages = [each for each in read if each.kind.is_wrong]
                check(not damages, "an entry is damaged in the end", broker.host, log.folder, damages)
