"""``logd mirror status``: how far the mirrors of a group are behind, and how fast they are."""

from __future__ import annotations

import json
import time
from typing import Any

import click

from logd.cli.mirror.options import cluster_options
from logd.cli.options import GroupParameter, json_option
from logd.cli.reactor_command import run
from logd.cli.terminal.tables import show
from logd.client.admin.lag import LagReader, PartitionLag, partitions_of, together
from logd.coord.groups.inspection import read_group
from logd.mirror.cluster_search import ClusterAddress, try_cluster
from logd.mirror.rates import MirrorRate, recent_rates
from logd.mirror.topic_names import PAIRS_TOPIC
from logd.topic import TopicPartition

_COLUMNS = ("topic", "partition", "position", "log_end", "lag_bytes", "lag_messages", "lag_seconds", "owner")


@click.command(short_help="Show lags and rates.")
@cluster_options(required=True)
@click.option("--group", type=GroupParameter(), default="mirror", show_default=True, help="The mirrors' group.")
@click.option(
    "--count-below",
    type=click.IntRange(0),
    default=1 << 20,
    show_default=True,
    metavar="BYTES",
    help="Count the messages of a lag of at most this size, by reading them.",
)
@click.option(
    "--over",
    type=click.FloatRange(1.0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Rates are those of the last seconds.",
)
@json_option
@click.pass_context
def status(ctx: click.Context, /, **options: Any) -> None:
    """Print the position, lag, owner and rate of each partition that the mirrors copy.

    Lags are in bytes of the source's log, in messages where they are few enough to count, and in seconds: the age of
    the first message that is not on the target. Positions are those committed last, about a second ago.
    """
    ctx.exit(run(lambda reactor: _status(reactor, **options)))


async def _status(
    reactor: Any,
    source: str,
    target: str,
    source_zookeeper: str | None,
    group: str,
    count_below: int,
    over: float,
    as_json: bool,
) -> None:
    source_access = await try_cluster(reactor, ClusterAddress(source, source_zookeeper), True, name="source")
    try:
        assert source_access.tree is not None  # it was asked for
        entry = await read_group(source_access.tree, group)
        places = [each for each in await partitions_of(source_access.tree, entry, None) if each.topic != PAIRS_TOPIC]
        source_admin = source_access.admin()
        try:
            reader = LagReader(source_admin, source_access.consumer, reactor, time.time, count_below)
            lags = await reader.read(entry, places)
        finally:
            await source_admin.close()
        target_access = await try_cluster(reactor, ClusterAddress(target), False, name="target")
        target_admin = target_access.admin()
        try:
            rates = await recent_rates(
                target_admin, target_access.consumer, source_access.uuid, round(time.time() * 1000), round(over * 1000)
            )
        finally:
            await target_admin.close()
            await target_access.close()
    finally:
        await source_access.close()
    if as_json:
        click.echo(json.dumps(_as_json(group, lags, rates)))
        return
    none = MirrorRate(0.0, 0.0)
    show(
        [*(name.replace("_", " ") for name in _COLUMNS), "messages/s", "bytes/s", "error"],
        [
            (
                *(getattr(lag, name) for name in _COLUMNS),
                round(rates.get(TopicPartition(lag.topic, lag.partition), none).messages, 1),
                round(rates.get(TopicPartition(lag.topic, lag.partition), none).size, 1),
                lag.error,
            )
            for lag in lags
        ],
    )


def _as_json(group: str, lags: list[PartitionLag], rates: dict[TopicPartition, MirrorRate]) -> dict[str, Any]:
    none = MirrorRate(0.0, 0.0)
    rows = []
    for lag in lags:
        rate = rates.get(TopicPartition(lag.topic, lag.partition), none)
        rows.append({**lag.to_json(), "messages_per_second": rate.messages, "bytes_per_second": rate.size})
    return {
        "group": group,
        **{name: together(lags, name) for name in ("lag_bytes", "lag_messages", "lag_seconds")},
        "messages_per_second": sum(rate.messages for rate in rates.values()),
        "bytes_per_second": sum(rate.size for rate in rates.values()),
        "partitions": rows,
    }
