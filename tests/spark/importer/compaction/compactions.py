"""Targets for the tests of compactions, a rewriter without Spark, and file systems under which a process is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from attrs import define, evolve, field
from twisted.trial.unittest import SynchronousTestCase

from logd.log.disk.local_files import LocalFiles
from logd.spark.importer.compaction.compaction_report import CompactionReport
from logd.spark.importer.compaction.compactor import CompactionSettings, Compactor, Rewritten
from logd.spark.importer.targets.layout import QUARANTINE, run_name
from logd.spark.importer.targets.local import LocalTarget
from logd.spark.importer.targets.offsets import TYPED_FORMAT, RunOffsets
from logd.spark.importer.targets.target import Target, publish
from tests.spark.importer.runs import A0, A1, run_of

HOUR = 3_600_000
#: 2011-11-11T00:00:00Z in ms.
MIDNIGHT = 1_320_969_600_000


def runs_at(*hours: int) -> list[RunOffsets]:
    """Return runs that follow one another and begin at these hours after midnight; each loads ten messages."""
    made: list[RunOffsets] = []
    for number, hour in enumerate(hours, 1):
        before = made[-1] if made else None
        ranges = (
            {A0: (number * 100 - 100, number * 100), A1: (0, 50)}
            if number == 1
            else {A0: (number * 100 - 100, number * 100)}
        )
        made.append(evolve(run_of(number, ranges, before), began_ms=MIDNIGHT + hour * HOUR))
    return made


def with_quarantine(run: RunOffsets) -> RunOffsets:
    """Return a run of typed values with one message of each range in quarantine."""
    return evolve(run, loaded=tuple(evolve(each, quarantined=1) for each in run.loaded), format=TYPED_FORMAT)


@define
class FakeRewriter:
    """A rewriter of files with a line for each message; ``meanwhile`` is called at its end."""

    meanwhile: Callable[[], object] = lambda: None
    calls: list[tuple[int, int]] = field(factory=list)

    def rewrite(self, target: Target, runs: Sequence[RunOffsets], staged: str, tasks: int) -> Rewritten:
        """Write the lines of all runs into one file."""
        self.calls.append((len(runs), tasks))
        folder = Path(target.staging(staged).removeprefix("file://"))
        (folder / "topic=a").mkdir(parents=True)
        lines = [line for run in runs for line in lines_of(Path(target.location, run_name(run.run)))]
        (folder / "topic=a" / "part-merged").write_text("".join(f"{line}\n" for line in sorted(lines)))
        if any(run.quarantined for run in runs):
            (folder / QUARANTINE).mkdir()
            places = [Path(target.location, run_name(run.run), QUARANTINE) for run in runs]
            wrong = [line for place in places for line in lines_of(place)]
            (folder / QUARANTINE / "part-merged").write_text("".join(f"{line}\n" for line in wrong))
        self.meanwhile()
        return Rewritten(len(runs), 1)

    def target(self, location: str) -> Target:
        """Fail, since these targets are local folders."""
        raise NotImplementedError


class DiesAt(LocalFiles):
    """A file system under which this process is killed before, or after, the n-th rename or sync of a folder."""

    def __init__(self, step: int) -> None:
        self.left = step

    def rename(self, source: str, target: str) -> None:
        """Die, or rename."""
        self._step()
        super().rename(source, target)

    def sync_directory(self, path: str) -> None:
        """Die, or sync."""
        self._step()
        super().sync_directory(path)

    def _step(self) -> None:
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)


class Unreadable(Exception):
    """A reader meets the notice of a compaction, and fails."""


def lines_of(folder: Path) -> list[str]:
    """Return the lines of the data files that readers see in a folder."""
    found: list[str] = []
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.is_file() and not any(part[0] in "_." for part in parts):
            found += path.read_text().splitlines()
    return found


class CompactionTestCase(SynchronousTestCase):
    """A target with four runs of one date and one of the next."""

    def setUp(self) -> None:
        """Write the runs, with what a colleague's tool hid beside the data of the second."""
        self.root = Path(os.path.abspath(self.mktemp()))
        self.rewriter = FakeRewriter()
        self.make(*runs_at(1, 2, 3, 23, 24))
        (self.root / "run=2" / "_quarantine").mkdir()
        (self.root / "run=2" / "_quarantine" / "part-0").write_text("bad")

    def make(self, *runs: RunOffsets) -> None:
        """Publish runs into the target."""
        target = LocalTarget(str(self.root))
        target.acquire()
        for run in runs:
            folder = Path(target.staging(run.uuid).removeprefix("file://"), "topic=a")
            folder.mkdir(parents=True)
            sound = range(run.quarantined, run.messages)
            (folder / "part-0").write_text("".join(f"{run.run} {number}\n" for number in sound))
            if run.quarantined:
                (folder.parent / QUARANTINE).mkdir()
                (folder.parent / QUARANTINE / "part-0").write_text(f"wrong {run.run}\n")
            publish(target, run)
        target.close()

    def compact(
        self, now: int = MIDNIGHT + 30 * HOUR, target: LocalTarget | None = None, **changes: object
    ) -> CompactionReport:
        """Compact the target at a time."""
        settings = evolve(CompactionSettings(to=str(self.root)), **changes)  # type: ignore[arg-type]
        compactor = Compactor(settings, self.rewriter, clock=lambda: now / 1000)
        if target is not None:
            self.patch(Compactor, "target", lambda _: target)
        return compactor.run()

    def seen(self) -> list[str]:
        """Return what a reader sees; raises Unreadable if that is not to be read now."""
        if (self.root / "run=0").exists():
            raise Unreadable
        return sorted(lines_of(self.root))

    def names(self) -> list[str]:
        """Return the names that readers see."""
        return sorted(name for name in os.listdir(self.root) if name[0] not in "_.")


class KilledTestCase(CompactionTestCase):
    """A test that kills compactions."""

    def killed_at(self, step: int) -> bool:
        """Compact in another process that dies at this step; return False if it came to its end."""
        child = os.fork()
        if not child:
            try:
                self.compact(target=LocalTarget(str(self.root), DiesAt(step)))
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        return os.WIFSIGNALED(status)
