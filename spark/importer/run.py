"""One import from beginning to end: survey, plan, load, count, publish. A failure leaves nothing visible."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from attrs import define, evolve

from logd.clientcore.start_resolution import LATEST
from logd.spark.blocking.cluster import BlockingCluster, ClusterSettings
from logd.spark.blocking.offsets import OffsetLimits
from logd.spark.blocking.reading import ReadSettings
from logd.spark.blocking.registry import BlockingRegistry
from logd.spark.blocking.schema_lookup import ReaderSchema
from logd.spark.importer.auditing.run_tallies import RowTally, events_of, reporter_of
from logd.spark.importer.auditing.unpublished_counts import RunCounts, keep, publish_kept, publish_left
from logd.spark.importer.backfill_plan import plan_backfill
from logd.spark.importer.import_plan import LogState, Plan, PlannedRange, begun_anew, plan
from logd.spark.importer.report import ImportReport
from logd.spark.importer.settings import ImportSettings
from logd.spark.importer.survey import check_still_there, survey
from logd.spark.importer.targets.chain import check_chain
from logd.spark.importer.targets.layout import run_name
from logd.spark.importer.targets.local import LocalTarget
from logd.spark.importer.targets.offsets import PLACE_COLUMNS, Lineage, Loaded, PlaceColumns, RunOffsets
from logd.spark.importer.targets.swapping import finish
from logd.spark.importer.targets.target import Target, check_not_compacting, last_run, publish, read_run
from logd.spark.importer.typed.quarantine import notices as quarantine_notices
from logd.spark.importer.typed.typing_plan import Connect, TypedValues, typed_values


class Loader(Protocol):
    """The interface of Spark's loader, and of its test double."""

    def start(self, size: int) -> None:
        """Prepare for a load of this many bytes of log; the seconds that it takes do not count as loading."""
        ...

    def load(
        self,
        ranges: Sequence[PlannedRange],
        folder: str,
        began_ms: int,
        columns: PlaceColumns,
        readers: Mapping[str, ReaderSchema],
    ) -> list[Loaded]:
        """Write the messages of ``ranges`` into ``folder``, which does not exist yet, and count what is in its files.

        With a schema registry ``readers`` has the reader's schema of each topic, else nothing.

        Raises ImportFailed, or another LogdError that failed a task; the folder may then hold anything.
        """
        ...

    def tally(self, folder: str, width: int) -> list[RowTally]:
        """Return the audit's tallies of what was loaded into ``folder``, for windows of ``width`` ms.

        Raises ImportFailed.
        """
        ...

    def target(self, location: str) -> Target:
        """Return a target on a file system other than the local one. Raises TargetError."""
        ...


@define(eq=False)
class Importer:
    """Runs one import. ``loader`` is not used before there is something to load into a local target."""

    settings: ImportSettings
    loader: Loader
    connect: Callable[[ClusterSettings], BlockingCluster] = BlockingCluster
    clock: Callable[[], float] = time.time
    registry: Connect = BlockingRegistry

    def run(self) -> ImportReport:
        """Import the new messages, or with ``dry_run`` report them.

        Raises RunLost if another import was faster or is running; DataLost if messages are lost that were not
        loaded; TargetError for a target that no import has written; BrokerUnavailable, UnknownTopic and
        other WireErrors; ImportFailed if loading failed; with a schema registry the errors of ``typed_values``. Then
        nothing of the run is visible.
        """
        settings = self.settings
        began = self.clock()
        with self.connect(settings.cluster) as cluster:
            states = self._survey(cluster, settings.starting)
            target = self.target()
            try:
                late: list[str] = []
                if not settings.dry_run:
                    target.acquire()
                    finish(target)
                    target.clean()
                    late = publish_left(target, cluster, self.clock)
                last = last_run(target)
                positions = last.positions if last is not None else {}
                shorter = [each.lineage for each in states if each.visible_end < positions.get(each.lineage, 0)]
                if shorter:
                    # Another import has ended since the brokers were asked, a log has lost messages, or its leader is
                    # none any more, and does not know that yet: then the next broker that is asked does.
                    for each in shorter:
                        cluster.leads_no_more(each.topic, each.partition)
                    states = self._survey(cluster, settings.starting)
                planned = self._plan(cluster, target, states, positions)
                if not states:
                    nothing = f"no topic at {settings.cluster.brokers} matches {settings.subscription.pattern!r}"
                    planned = evolve(planned, notices=(nothing,))
                planned = evolve(planned, notices=(*late, *planned.notices))
                topics = [each.lineage.topic for each in planned.ranges]
                values = typed_values(settings, target.location, last, topics, self.registry)
                # An accepted loss makes a run, even an empty one: otherwise the log might grow over the loss unnoticed.
                # So does a first position at the end of a log, where the next import would begin later still.
                begun = settings.starting.has(LATEST) and planned.positions.keys() - positions.keys()
                if settings.dry_run or not (planned.ranges or planned.lost or begun):
                    return ImportReport(target.location, planned, dry_run=settings.dry_run, notices=planned.notices)
                return self._load(cluster, target, last, planned, values, began)
            finally:
                target.close()

    def _survey(self, cluster: BlockingCluster, starting: OffsetLimits) -> list[LogState]:
        settings = self.settings
        reading = ReadSettings(
            max_decompressed=settings.max_decompressed, max_decompressed_messages=settings.max_decompressed_messages
        )
        return survey(cluster, settings.subscription, starting, reading)

    def _plan(
        self,
        cluster: BlockingCluster,
        target: Target,
        states: Sequence[LogState],
        positions: Mapping[Lineage, int],
    ) -> Plan:
        settings = self.settings
        from_start = begun_anew(states, positions)
        if settings.until is None and not settings.backfill:
            return plan(from_start, positions, settings.accept_loss)
        ends = self._survey(cluster, settings.until or OffsetLimits.of("latest"))
        if settings.backfill:
            check_not_compacting(target)
            runs = [read_run(target, number) for number in target.runs()]
            check_chain(runs)
            return plan_backfill(states, ends, runs, target.location)
        until = {each.lineage: each.first for each in ends}
        bounded = [_bounded(each, until, positions.get(each.lineage, each.first)) for each in from_start]
        return plan(bounded, positions, settings.accept_loss)

    def target(self) -> Target:
        """Return the target of the settings."""
        path = self.settings.local_path
        return self.loader.target(self.settings.to) if path is None else LocalTarget(path)

    def _load(
        self,
        cluster: BlockingCluster,
        target: Target,
        last: RunOffsets | None,
        planned: Plan,
        values: TypedValues,
        began: float,
    ) -> ImportReport:
        run_uuid = str(uuid.uuid4())
        began_ms = round(began * 1000)
        try:
            loaded: Sequence[Loaded] = ()
            tallies: Sequence[RowTally] = ()
            load_seconds = 0.0
            form = last.format if last is not None else values.format
            if planned.ranges:
                self.loader.start(planned.bytes)
                loading = self.clock()
                staged = target.staging(run_uuid)
                loaded = self.loader.load(planned.ranges, staged, began_ms, PLACE_COLUMNS[form], values.readers)
                if self.settings.audit:
                    tallies = self.loader.tally(staged, self.settings.audit_width)
                load_seconds = self.clock() - loading
                check_still_there(cluster, planned.ranges)
            offsets = RunOffsets(
                run=last.run + 1 if last is not None else 1,
                uuid=run_uuid,
                previous_uuid=last.uuid if last is not None else "",
                began_ms=began_ms,
                data={
                    "format": self.settings.format,
                    "codec": self.settings.compression,
                    "partition_by": list(self.settings.partition_by),
                    **values.to_json(),
                },
                loaded=() if self.settings.backfill else tuple(loaded),
                backfilled=tuple(loaded) if self.settings.backfill else (),
                lost=planned.lost,
                positions=planned.positions,
                format=form,
            )
            counts = self._counts(cluster, offsets, tallies, planned)
            if counts is not None:
                keep(target, counts)
            publish(target, offsets)
        except BaseException:
            # Report the original error; the next import removes the staged files.
            with suppress(Exception):
                target.discard(run_uuid)
            raise
        where = f"{target.location}/{run_name(offsets.run)}"
        wrong = quarantine_notices(loaded, None if self.settings.to_table else where)
        notices = [*planned.notices, *_gaps(loaded), *wrong]
        notice = publish_kept(target, cluster, counts, self.clock) if counts is not None else None
        notices += [] if notice is None else [notice]
        return ImportReport(
            target.location,
            planned,
            offsets.run,
            run_uuid,
            loaded,
            seconds=self.clock() - began,
            load_seconds=load_seconds,
            notices=tuple(notices),
        )

    def _counts(
        self, cluster: BlockingCluster, offsets: RunOffsets, tallies: Sequence[RowTally], planned: Plan
    ) -> RunCounts | None:
        """Return what is to be published about a run, None without anything."""
        if not tallies:
            return None
        name = cluster.retry(lambda: cluster.metadata(()).cluster)
        reporter = reporter_of(offsets.uuid, self.settings.server)
        events = events_of(tallies, planned.ranges, self.settings.audit_width, name, reporter)
        return RunCounts.of(offsets.run, offsets.uuid, events) if events else None


def _bounded(state: LogState, until: Mapping[Lineage, int], position: int) -> LogState:
    """Return the state of a log that ends at the limit, but not before ``position``: that would look like a loss.

    Nor does it end before its own beginning, where the target goes on after a loss.
    """
    limit = max(until.get(state.lineage, position), position, state.log_start)
    return evolve(state, visible_end=min(state.visible_end, limit))


def _gaps(loaded: Sequence[Loaded]) -> list[str]:
    """Return a notice about lost messages for each partition."""
    return [
        f"{each.lineage}: {each.gap_bytes} bytes of log from {each.start} to {each.end} are gaps, whose messages are "
        "no more"
        for each in loaded
        if each.gap_bytes
    ]
