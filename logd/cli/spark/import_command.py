"""``logd import``: loads the messages that topics got since the last run into files, with Spark."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from logd.cli.blocking_command import run_blocking
from logd.cli.options import (
    absolute,
    audit_options,
    broker_option,
    decompression_options,
    json_option,
    tls_options,
    zookeeper_option,
)
from logd.cli.spark.compacting import compact
from logd.cli.spark.outcome_files import OutcomeFiles
from logd.cli.spark.requirements import needs, needs_spark
from logd.cli.spark.typed_options import schema_settings, typed_options
from logd.cli.terminal.byte_progress import BytesProgress
from logd.cli.terminal.exits import complain
from logd.cli.terminal.tables import show
from logd.errors import ConfigurationError, LogdError
from logd.net.credentials import credentials_of_environment
from logd.spark.importer.table_location import is_table

if TYPE_CHECKING:
    from logd.spark.blocking.cluster import BlockingCluster, ClusterSettings

#: Exit statuses beyond those of every command, by the names of the errors.
_STATUSES = {"RunLost": 4, "DataLost": 5}

_EPILOG = """\b
Examples:
  logd import --topics clicks,orders --to /data/logs
  logd import --topics-pattern 'web-.*' --to /data/web --dry-run
  logd import --topics clicks --to /data/clicks --format json --partition-by date
  logd import --topics clicks --to hdfs:///logs/clicks --master yarn
  logd import --topics clicks --to /data/typed --registry http://127.0.0.1:8081
  logd import --topics clicks --to /data/again --from 2011-11-11T00:00:00Z
  logd import --topics clicks --to /data/logs --backfill --from 2011-11-01 --until 2011-11-04
  logd import --to /data/logs --compact
  logd import --topics clicks --to iceberg:///data/warehouse/logs.clicks
  logd import --topics clicks --to iceberg://production/logs.clicks

\b
Exit status: 0 success, also when there is nothing new; 1 failure, 2 usage error, 3 no broker reached,
4 another import is running or was faster, 5 messages were lost before they were loaded (--on-data-loss),
130 interrupted, 143 terminated. After 1 to 5 nothing of the run is visible; after a signal, all of it or nothing.
"""


@click.command("import", epilog=_EPILOG)
@click.option("--topics", metavar="TOPIC,...", help="The topics to load.")
@click.option("--topics-pattern", metavar="REGEX", help="Load all topics whose full name matches.")
@click.option(
    "--to",
    required=True,
    metavar="DIR",
    help="The target: a directory, a URI such as "
    "hdfs:///logs, or an Iceberg table: iceberg://CATALOG/NAMESPACE.TABLE, or iceberg:///DIR/NAMESPACE.TABLE for a "
    "warehouse in a local folder.",
)
@broker_option
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["parquet", "json"]),
    default="parquet",
    show_default=True,
    help="Format of the files.",
)
@click.option(
    "--partition-by",
    default="topic,date,hour",
    show_default=True,
    metavar="COLUMN,...",
    help="Columns that become folders, or none. Date and hour (UTC) are from the message's timestamp, or else from the "
    "time of the import.",
)
@click.option(
    "--codec",
    metavar="NAME",
    help="Compression: zstd (default), snappy, gzip, lz4, none; for json gzip, bzip2, deflate, none.",
)
@click.option(
    "--from",
    "start",
    default="earliest",
    show_default=True,
    metavar="earliest|latest|JSON|TIME",
    help='Where to begin in partitions that are new to DIR: JSON is {"topic": {"0": 4711}}.',
)
@click.option(
    "--until",
    metavar="latest|JSON|TIME",
    help="Where to end (default: at what is visible now). The next import goes on from there.",
)
@click.option(
    "--backfill",
    is_flag=True,
    help="Load what DIR lacks between --from and --until, before the position of its daily import, which stays.",
)
@click.option(
    "--on-data-loss",
    type=click.Choice(["fail", "warn"]),
    default="fail",
    show_default=True,
    help="What to do when messages were lost before they were loaded (by retention, a lost log or a recreated topic): "
    "end with status 5, or skip them, report the loss and record it in DIR.",
)
@typed_options
@click.option("--dry-run", is_flag=True, help="Print what would be loaded, and load nothing.")
@click.option(
    "--verify",
    is_flag=True,
    help="Load nothing: check that the runs in DIR follow one another without gaps, and count them.",
)
@click.option(
    "--compact",
    "unit",
    is_flag=False,
    flag_value="date",
    type=click.Choice(["date", "hour"]),
    help="Load nothing: merge the runs in DIR of each date (or hour) that is over into one with few files, sorted by "
    "partition and id. The last run stays as it is.",
)
@click.option(
    "--group",
    metavar="NAME",
    help="Store the import's positions in the tree at --zookeeper under this consumer group, so that its lag is shown "
    "beside that of other groups.",
)
@zookeeper_option
@click.option("--master", metavar="URL", help="Spark's master (default: local[*,4], or that of spark-submit).")
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A further Spark setting; may be repeated.")
@click.option(
    "--task-bytes",
    type=click.IntRange(1 << 10, 1 << 40),
    default=64 << 20,
    show_default=True,
    metavar="BYTES",
    help="Bytes of log in one task.",
)
@audit_options
@decompression_options
@tls_options
@click.option(
    "--timeout",
    type=click.FloatRange(0, 24 * 60 * 60),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for brokers.",
)
@click.option("--report", metavar="FILE", help="Also write the report into FILE as JSON, after a failure too.")
@click.option(
    "--metrics",
    metavar="FILE.prom",
    help="Write metrics of the run into FILE.prom, for the textfile collector of Prometheus' node_exporter.",
)
@json_option
@click.option("--quiet", "-q", is_flag=True, help="Show no progress.")
@click.pass_context
def import_(ctx: click.Context, /, **options: Any) -> None:
    """Load the messages that topics got since the last import into DIR, each exactly once.

    A run becomes visible atomically as DIR/run=N with its data, offsets and counts. If it fails, nothing of it is
    visible, and the next import goes on where the last successful one ended. Any reader of Parquet or JSON can read
    DIR; the offsets are in DIR/run=N/_offsets.json. In an Iceberg table a run is one snapshot, with the offsets in its
    summary; a table is created if there is none.
    """
    if options["verify"] and options["unit"]:
        raise click.UsageError("give one of --verify and --compact")
    if options["metrics"] and (options["verify"] or options["unit"]):
        raise click.UsageError("--metrics is for imports: give it without --verify and --compact")
    chosen = [name for name in ("topics", "topics_pattern") if options[name] is not None]
    if options["verify"] or options["unit"]:
        if chosen:
            raise click.UsageError("--verify and --compact take all of DIR: give them without --topics")
    elif len(chosen) != 1:
        raise click.UsageError("give one of --topics and --topics-pattern")
    ctx.exit(run_blocking(lambda: _import(**options), "; nothing is visible in part", _STATUSES))


def _import(
    as_json: bool,
    quiet: bool,
    verify: bool,
    unit: str | None,
    to: str,
    group: str | None,
    zookeeper: str,
    report: str | None,
    metrics: str | None,
    **options: Any,
) -> None:
    files = OutcomeFiles(to, report, metrics)
    if is_table(to):
        needs("pyiceberg", extra="iceberg")
    if verify:
        needs("pyarrow")
        with files.told_of_failure():
            _verify(to, as_json, files)
        return
    if unit is not None:
        _check_place(to, options["master"])
        with files.told_of_failure():
            compact(to, unit, options["dry_run"], options["master"], _conf(options["conf"]), as_json, files)
        return
    if group is not None:
        _check_group(group)
    from logd.spark.importer.report import COLUMNS
    from logd.spark.importer.run import Importer
    from logd.spark.importer.spark_loader import SparkLoader

    settings = _settings(to=to, **options)
    if not settings.dry_run or settings.local_path is None:  # a dry run with a local target needs no Spark
        needs_spark()  # before any request to a broker
    with (
        files.told_of_failure(),
        BytesProgress("importing", 0, quiet) as bar,
        closing(SparkLoader(settings, bar.reach)) as loader,
    ):
        done = Importer(settings, loader, patient(bar)).run()
    notices = [*done.notices]
    if group is not None and not (settings.dry_run or settings.backfill):
        notices += _told(zookeeper, group, done.plan.reached)
    for notice in notices:
        complain(notice)
    value = {**done.to_json(), "notices": notices}
    files.succeeded(value, done)
    if as_json:
        click.echo(json.dumps(value))
        return
    if done.plan.ranges:
        show(COLUMNS, done.rows())
    print(f"logd: {done.sentence()}", file=sys.stderr)


def patient(bar: BytesProgress) -> Callable[[ClusterSettings], BlockingCluster]:
    """Return a factory of clusters that show in ``bar`` when they wait for brokers, which may take minutes."""
    from logd.spark.blocking.cluster import BlockingCluster

    def connect(settings: ClusterSettings) -> BlockingCluster:
        def wait(seconds: float) -> None:
            bar.describe(f"waiting for brokers, at first {settings.brokers}")
            time.sleep(seconds)

        return BlockingCluster(settings, sleep=wait)

    return connect


def _check_group(group: str) -> None:
    from logd.coord.paths import group_offsets

    try:
        group_offsets(group, "any")
    except ValueError as error:
        raise ConfigurationError(f"--group: {error}") from None


def _told(zookeeper: str, group: str, positions: Any) -> list[str]:
    """Store the group's positions and return notices. The run is visible already: the next import mends a failure."""
    from logd.cli.cluster.group_positions import store

    try:
        store(zookeeper, group, positions)
    except LogdError as error:
        return [f"the positions of group {group!r} were not stored: {error}"]
    return []


def _verify(to: str, as_json: bool, files: OutcomeFiles) -> None:
    from logd.spark.importer.targets.verifying import verify

    found = verify(to)
    files.succeeded(found.to_json())
    for notice in found.notices():
        complain(notice)
    if as_json:
        click.echo(json.dumps(found.to_json()))
    else:
        print(f"logd: {found.sentence()}", file=sys.stderr)


def _settings(
    topics: str | None,
    topics_pattern: str | None,
    to: str,
    broker: str,
    file_format: str,
    partition_by: str,
    codec: str | None,
    start: str,
    until: str | None,
    backfill: bool,
    on_data_loss: str,
    dry_run: bool,
    master: str | None,
    conf: tuple[str, ...],
    task_bytes: int,
    max_decompressed: int,
    max_decompressed_messages: int,
    timeout: float,
    tls: bool,
    tls_ca: str | None,
    registry: str | None,
    reader_schema: str,
    audit: bool,
    audit_window: float,
    server: str,
) -> Any:
    from logd.spark.blocking.cluster import ClusterSettings
    from logd.spark.blocking.offsets import parse_offsets
    from logd.spark.blocking.subscription import parse_subscription
    from logd.spark.importer.settings import ImportSettings

    try:
        starting = parse_offsets(start, "earliest")
    except ValueError as error:
        raise ConfigurationError(f"--from {start!r} is not allowed: {error}") from None
    try:
        ending = parse_offsets(until, "latest") if until is not None else None
    except ValueError as error:
        raise ConfigurationError(f"--until {until!r} is not allowed: {error}") from None
    settings = ImportSettings(
        subscription=parse_subscription({"subscribe": topics, "subscribePattern": topics_pattern}),
        to=to,
        cluster=ClusterSettings(
            brokers=broker,
            retry_timeout=timeout,
            tls=tls or tls_ca is not None,
            tls_ca=absolute(tls_ca),
            credentials=credentials_of_environment(),
        ),
        starting=starting,
        until=ending,
        backfill=backfill,
        format=file_format,
        codec=codec,
        partition_by=tuple(part.strip() for part in partition_by.split(",")) if partition_by != "none" else (),
        accept_loss=on_data_loss == "warn",
        dry_run=dry_run,
        master=master,
        spark=_conf(conf),
        task_bytes=task_bytes,
        max_decompressed=max_decompressed,
        max_decompressed_messages=max_decompressed_messages,
        schemas=schema_settings(registry, reader_schema, timeout),
        audit=audit,
        audit_window=audit_window,
        server=server,
    )
    settings.cluster.addresses()
    _check_place(to, master)
    return settings


def _conf(conf: tuple[str, ...]) -> dict[str, str]:
    for each in conf:
        if "=" not in each:
            raise ConfigurationError(f"--conf {each!r} is not allowed; allowed is KEY=VALUE")
    return dict(each.split("=", 1) for each in conf)


def _check_place(to: str, master: str | None) -> None:
    from logd.spark.importer.settings import is_local

    if "://" not in to and not to.startswith("file:") and not is_local(master):
        raise ConfigurationError(
            f"--to {to!r} may be a different directory on each machine: write hdfs://... or file://..."
        )
