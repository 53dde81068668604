"""``logd bench``: the group of the benches."""

from __future__ import annotations

import click

from logd.cli.bench.audit import audit
from logd.cli.bench.beside import beside
from logd.cli.bench.coordination import coordination
from logd.cli.bench.groups import groups
from logd.cli.bench.kafka import kafka
from logd.cli.bench.latency import latency
from logd.cli.bench.mirror import mirror
from logd.cli.bench.partitions import partitions, replication
from logd.cli.bench.peers import peers
from logd.cli.bench.rates import consume, produce
from logd.cli.bench.retained import retained
from logd.cli.bench.security import quotas, security
from logd.cli.bench.spark import spark


@click.group()
def bench() -> None:
    """Measure produce, consume, latency and groups.

    Rates are shown beside the limit of the machine, measured in the same run, between the rounds. For produce the limit
    is reading bytes from a socket and writing them to a file without a flush; for consume it is sendfile of a cached
    file to a process that reads. On a noisy machine the ratio is more reliable than the rate.
    """


for command in (
    *(
        produce,
        consume,
        latency,
        mirror,
        audit,
        replication,
        retained,
        partitions,
        peers,
        kafka,
        beside,
        groups,
        coordination,
        security,
        quotas,
        spark,
    ),
):
    bench.add_command(command)
