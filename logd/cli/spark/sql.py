"""``logd sql``: queries topics in SQL, with a Spark session."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import click

from logd.cli.blocking_command import run_blocking
from logd.cli.options import absolute, broker_option, json_option, tls_options
from logd.cli.spark.requirements import needs_spark
from logd.cli.terminal.exits import complain
from logd.cli.terminal.tables import show, show_line
from logd.errors import BrokerUnavailable, ConfigurationError, LogdError
from logd.net.credentials import credentials_of_environment

_EPILOG = """\b
Examples:
  logd sql "SELECT count(*) FROM topic('access')"
  logd sql "SELECT text, timestamp FROM access WHERE text LIKE '% 500 %' ORDER BY timestamp DESC" --limit 20
  logd sql "SELECT get_json_object(text, '$.user') AS user, count(*) AS n FROM topic('clicks') GROUP BY user" --json
  logd sql - < question.sql
"""


@click.command(epilog=_EPILOG)
@click.argument("query")
@broker_option
@click.option(
    "--from",
    "start",
    default="earliest",
    metavar="earliest|JSON|TIME",
    help='Where to begin: JSON is {"topic": {"0": 4711}}.',
)
@click.option("--until", default="latest", metavar="latest|JSON|TIME", help="Where to end.")
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    metavar="N",
    help="Print at most this many rows.",
)
@click.option("--master", metavar="URL", help="Spark's master (default: local[*,4]).")
@tls_options
@json_option
@click.pass_context
def sql(ctx: click.Context, /, **options: Any) -> None:
    """Run QUERY (- for standard input) in Spark's SQL, with topics as tables, and print its rows.

    A topic is a table under its own name, or as topic('name'), which works for every name. Columns: key, value, topic,
    partition, offset, timestamp, timestampType, id, next_position, headers, and text: the value as text. With --json
    each row is an object on one line; bytes that are not UTF-8 are {"base64": "..."}. Times are in UTC.
    """
    ctx.exit(run_blocking(lambda: _sql(**options), ""))


def _sql(
    query: str,
    broker: str,
    start: str,
    until: str,
    limit: int,
    master: str | None,
    tls: bool,
    tls_ca: str | None,
    as_json: bool,
) -> None:
    needs_spark()
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    from logd.spark.blocking.cluster import BlockingCluster, ClusterSettings
    from logd.spark.driver.topic_sql import make_views, named_topics, rewrite
    from logd.spark.importer.session import open_session
    from logd.spark.session import ending
    from logd.spark.worker.options import cluster_options

    asked = rewrite(sys.stdin.read() if query == "-" else query)
    settings = ClusterSettings(
        brokers=broker,
        tls=tls or tls_ca is not None,
        tls_ca=absolute(tls_ca),
        credentials=credentials_of_environment(),
    )
    settings.addresses()
    with BlockingCluster(settings) as cluster:
        known = {topic.topic: topic for topic in cluster.metadata(None).topics}
        topics = named_topics(asked, frozenset(known))
        logs = [cluster.describe(name, each.partition) for name in topics for each in known[name].partitions]
    size = sum(log.visible_end - log.log_start for log in logs)
    try:
        session = open_session("logd sql", master, {}, size)
    except (PySparkException, Py4JError) as error:
        raise _explained(error) from error
    options = {"startingOffsets": start, "endingOffsets": until, "includeHeaders": "true", **cluster_options(settings)}
    try:
        with ending(session, "logd-sql", "logd sql"):
            make_views(session, topics, options)
            frame = session.sql(asked.text)
            columns = frame.columns
            rows = frame.limit(limit + 1).collect()
    except (PySparkException, Py4JError) as error:
        raise _explained(error) from error
    if as_json:
        for row in rows[:limit]:
            show_line(json.dumps(_plain(row.asDict(recursive=True)), ensure_ascii=False))
    else:
        show(columns, [tuple(_cell(value) for value in row) for row in rows[:limit]])
    if len(rows) > limit:
        complain(f"there are more rows than {limit}: --limit shows more")


class QueryFailed(LogdError):
    """Spark refused the query, or failed while it ran."""


def _explained(error: Exception) -> LogdError:
    """Return Spark's error reduced to its one sentence, without plans and stack traces."""
    from logd.spark.importer.explaining import explained

    known = explained(error, "the query failed")
    return known if isinstance(known, BrokerUnavailable | ConfigurationError) else QueryFailed(str(known))


def _plain(value: Any) -> Any:
    """Return the value as JSON types."""
    if isinstance(value, bytes | bytearray):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()  # Spark returns times in the local time zone
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return float(value) if isinstance(value, Decimal) else str(value)


def _cell(value: Any) -> Any:
    """Return the value as one cell of a table, on one line."""
    if hasattr(value, "asDict"):
        value = value.asDict(recursive=True)
    plain = _plain(value)
    if isinstance(plain, dict | list):
        plain = json.dumps(plain, ensure_ascii=False)
    if isinstance(plain, bool):
        return str(plain).lower()
    if isinstance(plain, str):
        return plain.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
    return plain
