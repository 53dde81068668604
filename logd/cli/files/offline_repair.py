"""Repairs the files of a stopped broker: inspects them, shows the damage, asks, and makes gaps."""

from __future__ import annotations

import json
import os
from itertools import groupby
from typing import Any

import click
from attrs import define, frozen

from logd.cli.files.inspection import Finding, Inspected, inspect
from logd.cli.terminal.exits import FAILED, OK, complain, exit_on_error
from logd.cli.terminal.prompts import ask
from logd.errors import DataDirectoryError
from logd.interfaces import IFile, IFileOperations
from logd.log.damage.data_directory import is_replica, read_contents
from logd.log.damage.inspection import Remark, SegmentInspection
from logd.log.damage.kinds import DamageKind
from logd.log.damage.repair import hides_boundaries, make_gap_segment, may_cut, mend, remove_index
from logd.log.disk.local_files import LocalFiles
from logd.log.store.meta import lock_directory
from logd.plurals import counted
from logd.protocol.checksums import CHECKSUMS


@frozen
class Choice:
    """The options of a repair."""

    yes: bool
    force: bool
    dry_run: bool
    as_json: bool
    quiet: bool


@define
class _Plan:
    """The findings, sorted by the way in which they can be repaired."""

    found: Inspected
    #: Findings that can be mended without losing any sound message.
    mendable: list[Finding]
    #: Findings that only a cut can repair.
    cuts: list[Finding]
    #: Indexes that are wrong.
    indexes: list[Remark]
    #: The folders of replicated partitions with damage, which is left.
    replicas: list[str]
    mend: bool = False
    cut: bool = False

    @property
    def left(self) -> int:
        """The number of problems that are left."""
        findings = {id(f) for f in self.found.findings if f.damage.kind.is_wrong}
        findings -= {id(f) for f in self.mendable if self.mend} | {id(f) for f in self.cuts if self.cut}
        indexes = self.indexes if self.mend else []
        return len(findings) + sum(1 for remark in self.found.remarks if remark.wrong and remark not in indexes)


def repair_files(path: str, **options: Any) -> int:
    """Repair the files in ``path`` and return the exit status; ``options`` are those of Choice."""
    choice = Choice(**options)
    files = LocalFiles()
    status = FAILED
    with exit_on_error():
        lock = None if choice.dry_run else _lock(files, path)
        try:
            status = _repair(files, path, choice)
        finally:
            if lock is not None:
                lock.close()
    return status


def _lock(files: IFileOperations, path: str) -> IFile | None:
    """Lock the data directory against brokers. Raises DataDirectoryError when one is using it."""
    directory = read_contents(files, os.path.abspath(path)).data_directory
    if directory is None:
        complain(
            f"{path} is not in a data directory with a meta file, so nothing keeps a broker from using it meanwhile"
        )
        return None
    try:
        return lock_directory(files, directory)
    except DataDirectoryError as error:
        if not isinstance(error.__cause__, BlockingIOError):
            raise
        raise DataDirectoryError(
            f"data directory {directory} is in use by another process: stop that broker, or have it repair while it "
            "serves: logd repair --broker HOST:PORT TOPIC"
        ) from error


def _repair(files: IFileOperations, path: str, choice: Choice) -> int:
    plan = _look(files, path, choice.quiet)
    if not choice.as_json:
        _show(plan)
    for folder in plan.replicas:
        complain(
            f"{folder} is not repaired here, as other brokers have replicas of this partition, and a gap would make it "
            "differ from theirs: start this broker, which takes the damaged bytes from another in-sync replica. "
            "Where none has them, `logd repair --broker HOST:PORT TOPIC` makes gaps in all replicas"
        )
    if not choice.dry_run:
        _decide(plan, choice)
        _mend(files, plan)
    left = plan.left
    if choice.as_json:
        done = {"mended": len(plan.mendable) * plan.mend, "cut": len(plan.cuts) * plan.cut, "left": left}
        click.echo(json.dumps({**plan.found.to_json(), **done, "dry_run": choice.dry_run}))
    elif choice.dry_run:
        click.echo(f"problems found: {left}; nothing was changed" if left else "sound")
    else:
        click.echo(f"problems left: {left}" if left else "sound")
    return FAILED if left else OK


def _look(files: IFileOperations, path: str, quiet: bool) -> _Plan:
    cuts: list[Finding] = []
    indexes: list[Remark] = []

    def ended(inspection: SegmentInspection) -> None:
        place, size = inspection.place, inspection.walk.size
        indexes.extend(remark for remark in inspection.index_remarks() if remark.wrong)
        cuts.extend(Finding(place, each) for each in inspection.damages if not place.closed and may_cut(each, size))

    found = inspect(files, path, CHECKSUMS, "looking", quiet, ended)
    wrong = {each.place.folder for each in found.findings if each.damage.kind.is_wrong}
    replicas = [folder for folder in sorted(wrong) if is_replica(files, folder)]
    own = [each for each in found.findings if each.place.folder not in replicas]
    mendable = [each for each in own if each.damage.kind.mendable]
    return _Plan(found, mendable, [finding for finding in own if finding in cuts], indexes, replicas)


def _show(plan: _Plan) -> None:
    for finding in plan.found.findings:
        click.echo(("" if finding.damage.kind.is_wrong else "left for the next start: ") + finding.text)
    for remark in plan.found.remarks:
        if remark.wrong:
            click.echo(f"{remark.path} {remark.text}")
    click.echo(plan.found.summary)


def _decide(plan: _Plan, choice: Choice) -> None:
    if plan.mendable or plan.indexes:
        size = sum(finding.damage.size for finding in plan.mendable)
        what = [f"make gaps of {counted(len(plan.mendable), 'damaged place')}, {counted(size, 'byte')}"] * bool(
            plan.mendable
        )
        what += [
            f"remove {counted(len(plan.indexes), 'damaged index', 'damaged indexes')}, for the broker to build again"
        ] * bool(plan.indexes)
        plan.mend = choice.yes or ask(f"{' and '.join(what).capitalize()}?", "--yes")
    if plan.cuts:
        size = sum(finding.damage.size for finding in plan.cuts)
        question = f"Cut {counted(size, 'byte')} without a known entry boundary, with any sound messages in them?"
        plan.cut = choice.force or ask(question, "--force")


def _mend(files: IFileOperations, plan: _Plan) -> None:
    chosen = plan.mendable * plan.mend + plan.cuts * plan.cut
    for finding in chosen:
        if finding.damage.kind is DamageKind.MISSING:
            make_gap_segment(files, finding.place.folder, finding.place.start, finding.damage.size)
    chosen = [finding for finding in chosen if finding.damage.kind is not DamageKind.MISSING]
    for place, findings in groupby(sorted(chosen, key=_where), key=lambda finding: finding.place):
        damages = [finding.damage for finding in findings]
        file = files.open(place.path)
        try:
            mend(files, file, damages, plan.cut)
        finally:
            file.close()
        if hides_boundaries(damages):
            remove_index(files, place.index_path)
    for remark in plan.indexes * plan.mend:
        remove_index(files, remark.path)


def _where(finding: Finding) -> tuple[str, int]:
    return finding.place.path, finding.damage.position
