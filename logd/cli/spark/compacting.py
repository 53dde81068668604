"""``logd import --compact``: merges the runs of a finished date or hour."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import closing

import click

from logd.cli.spark.outcome_files import OutcomeFiles
from logd.cli.spark.requirements import needs_spark
from logd.cli.terminal.tables import show


def compact(
    to: str,
    unit: str,
    dry_run: bool,
    master: str | None,
    conf: Mapping[str, str],
    as_json: bool,
    files: OutcomeFiles,
) -> None:
    """Merge the runs of each finished unit of the target ``to``, and print the report. Blocks."""
    from logd.spark.importer.compaction.compaction_report import COLUMNS
    from logd.spark.importer.compaction.compactor import CompactionSettings, Compactor
    from logd.spark.importer.compaction.spark_rewriter import SparkRewriter
    from logd.spark.importer.settings import local_path

    settings = CompactionSettings(to=to, unit=unit, dry_run=dry_run)
    if not dry_run or local_path(to) is None:
        needs_spark()
    with closing(SparkRewriter(master, conf)) as rewriter:
        done = Compactor(settings, rewriter).run()
    files.succeeded(done.to_json())
    if as_json:
        click.echo(json.dumps(done.to_json()))
        return
    if done.groups:
        show(COLUMNS, done.rows())
    print(f"logd: {done.sentence()}", file=sys.stderr)
