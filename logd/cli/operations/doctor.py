"""``logd doctor``: what would stop this broker, slow it down or lose data, and the remedies."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import click
from attrs import evolve

from logd.cli.options import HostsParameter, json_option
from logd.cli.reactor_command import run
from logd.cli.terminal.exits import SIGNALLED
from logd.cli.terminal.tables import show
from logd.cli.tree_session import tree_at, tree_settings
from logd.config import BrokerSettings, ZooKeeperSecurity
from logd.coord.errors import CoordinationError
from logd.coord.zookeeper.client import ZooKeeperCoordination
from logd.coord.zookeeper.settings import CoordinationSettings
from logd.doctor.cluster_view import may_change, may_read, read_cluster
from logd.doctor.disks import measure_room
from logd.doctor.exposure import examine_open_tree
from logd.doctor.kept_topics import examine_kept_topics, kept_topics, measure_topics
from logd.doctor.losses import ClusterContents, examine_copies, examine_tree
from logd.doctor.machine import examine_machine
from logd.doctor.observation import Level, Observation, worst
from logd.doctor.ports import endpoints_of
from logd.doctor.processes import lock_holder
from logd.doctor.versions import examine_peers
from logd.errors import DataDirectoryError, LogdError
from logd.log.disk.names import COORDINATION, META
from logd.log.store.meta import Meta
from logd.plurals import counted

#: Exit statuses besides 0: at least one problem; warnings, and no problem.
PROBLEMS, WARNINGS = 1, 4
#: Seconds within which the tree has to answer.
_SECONDS = 3.0

_EPILOG = """\b
Examples:
  logd doctor
  logd doctor --data /var/lib/logd/broker --config /etc/logd/logd.toml
  logd doctor --data /var/lib/logd/broker --json | jq '.[] | select(.level == "problem")'
\b
Exit status: 0 nothing, or notes only; 4 warnings; 1 a problem; 2 usage error.
"""


@click.command(epilog=_EPILOG)
@click.option("--data", type=click.Path(file_okay=False), metavar="DIR", help="The data directory of the broker.")
@click.option("--config", type=click.Path(dir_okay=False), metavar="FILE.toml", help="The broker's settings file.")
@click.option(
    "--set", "assignments", metavar="KEY=VALUE", multiple=True, help="A setting of the broker; may be repeated."
)
@click.option(
    "--zookeeper",
    type=HostsParameter(),
    envvar="LOGD_ZOOKEEPER",
    show_envvar=True,
    help="The coordination tree; by default that of the settings.",
)
@click.option("--all", "everything", is_flag=True, help="Show what is in order, too.")
@json_option
@click.pass_context
def doctor(
    ctx: click.Context,
    /,
    data: str | None,
    config: str | None,
    assignments: tuple[str, ...],
    zookeeper: str | None,
    everything: bool,
    as_json: bool,
) -> None:
    """Look for what would stop a broker, slow it down, lose data or let strangers in; each with its remedy.

    Run it on the broker's machine, as its user or as root, with its --data, --config and --set; the broker may run or
    not. Nothing is changed. It looks at limits, disks, memory, clock, ports, versions, access, and at what would be
    lost with this machine. Without --data and --config it looks at the machine, and at the tree of --zookeeper.
    """
    settings = _settings(ctx, data, config, assignments)
    findings = list(examine_machine(settings, config))
    hosts = zookeeper or (settings.zookeeper_hosts if settings is not None else None)
    own = hosts is None and settings is not None
    if own and settings is not None:
        hosts = _own_tree(settings)
    if hosts is not None:
        findings += _cluster_findings(settings, hosts, own)
    elif settings is not None:
        findings.append(
            Observation(
                "losses",
                Level.NOTE,
                "coordination tree",
                "is that of the broker, which does not run: topics, groups and users were not looked at",
                "start the broker and run doctor again",
            )
        )
    _print(findings, everything, as_json)
    level = worst(findings)
    ctx.exit(PROBLEMS if level == Level.PROBLEM else WARNINGS if level == Level.WARNING else 0)


def _settings(
    ctx: click.Context, data: str | None, config: str | None, assignments: tuple[str, ...]
) -> BrokerSettings | None:
    """Return the broker's settings; None if the command line names no broker. Raises click.UsageError."""
    if data is None and config is None and not assignments:
        return None
    from twisted.python.usage import UsageError

    from logd.tap import Options

    arguments = [f"--data={data}"] if data is not None else []
    arguments += [f"--config={config}"] if config is not None else []
    arguments += [f"--set={each}" for each in assignments]
    options = Options()
    try:
        options.parseOptions(arguments)
    except UsageError as error:
        raise click.UsageError(str(error), ctx) from None
    return options.settings


def _own_tree(settings: BrokerSettings) -> str | None:
    """Return the address of the broker's own tree; None if the broker does not run."""
    if lock_holder(os.path.realpath(settings.data)) is None:
        return None
    for endpoint in endpoints_of(settings):
        if endpoint.setting == "zookeeper.listen":
            host = endpoint.host if endpoint.host not in ("", "0.0.0.0", "::") else "127.0.0.1"
            return f"[{host}]:{endpoint.port}" if ":" in host else f"{host}:{endpoint.port}"
    return None


def _cluster_findings(settings: BrokerSettings | None, hosts: str, own: bool) -> list[Observation]:
    """Ask the tree, with the TLS and the credentials of the settings, of which those of the environment are a part."""
    security = None if settings is None else settings.zookeeper_security
    found: list[ClusterContents] = []

    async def work(reactor: Any) -> None:
        try:
            async with tree_at(reactor, hosts, _SECONDS, security) as tree:
                cluster = await read_cluster(tree)
            found.append(await _as_stranger(reactor, hosts, security, cluster))
        except (CoordinationError, LogdError) as error:
            trouble.append(str(error))

    trouble: list[str] = []
    status = run(work)
    if status > SIGNALLED:
        raise click.exceptions.Exit(status)
    if not found:
        return [
            Observation(
                "losses",
                Level.PROBLEM,
                f"coordination tree {hosts}",
                f"does not answer: {'; '.join(trouble) or 'see above'}",
                "start it, or correct zookeeper.hosts; topics are served meanwhile, and not created or shared out anew",
            )
        ]
    (cluster,) = found
    me = _broker_id(settings) if settings is not None else None
    folder = os.path.join(settings.data, COORDINATION) if settings is not None else ""
    return [
        *examine_peers(cluster.brokers),
        *examine_copies(cluster, me),
        *examine_tree(cluster, None if own else hosts, folder),
        *_kept_findings(settings, cluster),
        *examine_open_tree(cluster, hosts),
    ]


def _kept_findings(settings: BrokerSettings | None, cluster: ClusterContents) -> Iterator[Observation]:
    sizes = room = None
    if settings is not None and os.path.isdir(settings.data):
        sizes = measure_topics(settings.data, kept_topics(cluster))
        with suppress(OSError):
            room = measure_room(settings.data)
    yield from examine_kept_topics(cluster, sizes, room)


async def _as_stranger(
    reactor: Any, hosts: str, security: ZooKeeperSecurity | None, cluster: ClusterContents
) -> ClusterContents:
    """Return the cluster with what a client without credentials may do; it is unknown where such a one gets nowhere."""
    stranger = ZooKeeperCoordination(reactor, stranger_settings(tree_settings(hosts, _SECONDS, security)))
    try:
        await stranger.connect()
        return evolve(cluster, open_to_change=await may_change(stranger), open_to_read=await may_read(stranger))
    except CoordinationError:
        return cluster
    finally:
        await stranger.close()


def stranger_settings(own: CoordinationSettings) -> CoordinationSettings:
    """Return the settings of a client that has the same way to the tree, and nothing to prove who it is."""
    tls = None if own.tls is None else evolve(own.tls, certificate=None, key=None)
    return evolve(own, tls=tls, digests=())


def _broker_id(settings: BrokerSettings) -> int | None:
    try:
        with open(os.path.join(settings.data, META), "rb") as file:
            return Meta.decode(file.read()).broker_id
    except (OSError, ValueError, DataDirectoryError):
        return settings.id


def _print(findings: list[Observation], everything: bool, as_json: bool) -> None:
    findings = sorted(findings, key=lambda each: -each.level)
    if as_json:
        click.echo(json.dumps([finding.to_json() for finding in findings]))
        return
    shown = [finding for finding in findings if everything or finding.level > Level.OK]
    rows = [(each.level.name.lower(), each.area, each.subject, each.text, each.remedy) for each in shown]
    if rows:
        show(["level", "area", "subject", "finding", "remedy"], rows)
    fine = sum(finding.level == Level.OK for finding in findings)
    counts = [
        counted(sum(each.level == level for each in findings), level.name.lower())
        for level in (Level.PROBLEM, Level.WARNING, Level.NOTE)
    ]
    click.echo(f"{', '.join(counts)}, {fine} in order", err=True)
