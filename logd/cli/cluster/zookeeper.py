"""``logd zookeeper``: a coordination tree for several brokers, in a process of its own, without a JVM."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from typing import Any

import click
from attrs import define
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.endpoints import serverFromString
from twisted.internet.error import CannotListenError
from twisted.logger import globalLogBeginner, textFileLogObserver

from logd.broker.descriptors import raise_limit
from logd.broker.listening.ports import check_tree_open
from logd.cli.cluster.salvage import salvage_tree
from logd.cli.reactor_command import run
from logd.cli.terminal.exits import FAILED, OK, SIGNALLED
from logd.config.zookeeper import security_of_environment
from logd.coord.server.four_letter_words import metrics
from logd.coord.server.server import CoordinationServer
from logd.coord.server.settings import CoordinationServerSettings
from logd.coord.tree.store import NODES, NODES_BYTES
from logd.coord.zookeeper.settings import CoordinationSettings
from logd.deferreds.timeouts import fired_within
from logd.errors import ConfigurationError, DataDirectoryError
from logd.log.disk.folders import make_folder
from logd.log.disk.local_files import LocalFiles
from logd.log.disk.names import META, TOPICS
from logd.net.server_tls import reactor_for_listeners
from logd.net.threads import DiskThreads
from logd.net.tls import endpoint_problem
from logd.supervision.notify_socket import notify_socket, watchdog_seconds
from logd.supervision.supervised import Supervised

DEFAULT_LISTEN = "tcp:2181:interface=127.0.0.1"
#: One for syncs, and one for a snapshot at the same time.
_THREADS = 2
#: The longest time of a stop. A disk that answers later does not hold up the end of the process.
STOP_SECONDS = 10.0
#: Connections that may wait to be accepted. Twisted's default is 50, and a client beyond it retries after a second.
_BACKLOG = 1024
#: New objects at which Python's garbage collector looks for cycles.
_COLLECT_AT = 10_000

_EPILOG = """\b
Examples:
  logd zookeeper --data /var/lib/logd/zookeeper
  logd broker --data a --zookeeper 127.0.0.1:2181                     (a broker that joins this tree)
  LOGD_ZOOKEEPER_DIGEST_FILE=tree.secret logd zookeeper --data zk --listen tcp:2181
  LOGD_ZOOKEEPER_DIGEST_FILE=tree.secret logd zookeeper --data zk --listen ssl:2182:privateKey=key.pem:certKey=cert.pem
  logd zookeeper --data zk --salvage
\b
Is it healthy?
  echo ruok | nc 127.0.0.1 2181       imok
  echo mntr | nc 127.0.0.1 2181       statistics
"""


@click.command(epilog=_EPILOG)
@click.option(
    "--data",
    type=click.Path(file_okay=False),
    required=True,
    metavar="DIR",
    help="The tree's own directory; created when it is missing.",
)
@click.option(
    "--listen",
    default=DEFAULT_LISTEN,
    show_default=True,
    metavar="ENDPOINT",
    help="The address that clients connect to, as a Twisted endpoint (ssl:... for TLS). Where other machines can "
    "connect, clients need the credentials of the brokers (LOGD_ZOOKEEPER_DIGEST_FILE) or those of a user.",
)
@click.option(
    "--open-to-network",
    is_flag=True,
    help="Let other machines connect without credentials, and change any node that was not created with some.",
)
@click.option(
    "--session-min",
    type=click.IntRange(1),
    default=4_000,
    show_default=True,
    metavar="MS",
    help="The shortest session timeout that a client gets.",
)
@click.option(
    "--session-max",
    type=click.IntRange(1),
    default=40_000,
    show_default=True,
    metavar="MS",
    help="The longest session timeout that a client gets.",
)
@click.option(
    "--snapshot-bytes",
    type=click.IntRange(1),
    default=8 << 20,
    show_default=True,
    metavar="BYTES",
    help="Write a snapshot of the whole tree after this many bytes of changes.",
)
@click.option(
    "--nodes",
    type=click.IntRange(1),
    default=NODES,
    show_default=True,
    metavar="N",
    help="The most nodes that the tree may have; creating more fails until some are deleted.",
)
@click.option(
    "--nodes-bytes",
    type=click.IntRange(1),
    default=NODES_BYTES,
    show_default=True,
    metavar="BYTES",
    help="The most memory for nodes, estimated: per node 600 bytes and its path, data and access list.",
)
@click.option(
    "--salvage",
    is_flag=True,
    help="Serve nothing: show what a damaged tree has lost, and repair it without that after asking. The broker that "
    "owns the tree may be running; it serves the tree again by itself.",
)
@click.option("--yes", "-y", is_flag=True, help="With --salvage: do not ask.")
@click.pass_context
def zookeeper(
    ctx: click.Context, /, data: str, listen: str, open_to_network: bool, salvage: bool, yes: bool, **options: int
) -> None:
    """Serve a coordination tree to brokers, consumers and any ZooKeeper client, until SIGTERM or SIGINT.

    A single broker does not need this command: it serves a tree of its own. Several brokers share one tree: that of
    this command, or of a real ZooKeeper ensemble if the tree has to survive the loss of a machine. Every acknowledged
    change is on the disk, sessions and ephemeral nodes included: after a restart, clients resume their sessions.
    """
    if salvage:
        ctx.exit(salvage_tree(os.path.abspath(data), yes))
    if options["session_min"] > options["session_max"]:
        raise click.UsageError(f"--session-min is above --session-max, {options['session_max']}")
    outcome = TreeOutcome()
    status = run(lambda reactor: serve(reactor, os.path.abspath(data), listen, open_to_network, options, outcome))
    if status in (SIGNALLED + signal.SIGTERM, SIGNALLED + signal.SIGINT):
        status = OK if outcome.is_closed else FAILED
    ctx.exit(status)


@define
class TreeOutcome:
    """The result of a run that decides the exit status after a signal."""

    #: False if the disk did not let the tree be closed in time.
    is_closed: bool = True


async def serve(
    reactor: Any, data: str, listen: str, open_to_network: bool, options: dict[str, int], outcome: TreeOutcome
) -> None:
    """Serve the tree in the directory ``data`` until cancelled. Raises ConfigurationError, DataDirectoryError."""
    settings = CoordinationServerSettings(
        shortest_session_ms=options["session_min"],
        longest_session_ms=options["session_max"],
        snapshot_bytes=options["snapshot_bytes"],
        nodes=options["nodes"],
        nodes_bytes=options["nodes_bytes"],
    )
    own = CoordinationSettings.secured("127.0.0.1", security_of_environment(os.environ)).access_lists().own
    check_directory(data)
    globalLogBeginner.beginLoggingTo([textFileLogObserver(sys.stderr)], redirectStandardIO=False)
    raise_limit()
    # A request's objects are freed when it is answered, and those in the tree form no cycles: the collector need not
    # run at every 700 new objects, which is its default and costs 12 % of a write.
    gc.set_threshold(_COLLECT_AT)
    threads = DiskThreads(reactor, _THREADS, "coordination")
    ended: Deferred[None] = Deferred()
    server = CoordinationServer(reactor, data, LocalFiles(), threads, settings, wall=time.time)
    threads.start()
    try:
        server.start()
        try:
            endpoint = serverFromString(reactor_for_listeners(reactor), listen)
        except Exception as error:  # an endpoint's parser may raise anything: ValueError, TypeError, OSError, SSL's
            raise ConfigurationError(
                f"--listen {listen!r} is not allowed: {endpoint_problem(error)}; allowed is a Twisted server endpoint, "
                f"such as {DEFAULT_LISTEN}"
            ) from error
        try:
            port = await endpoint.listen(server.factory)
        except CannotListenError as error:
            raise ConfigurationError(
                f"cannot listen on {listen!r}: {str(error).rstrip('.')}; is another ZooKeeper or a broker "
                "with a tree of its own running there? Stop it, or give another --listen"
            ) from error
        host = getattr(port.getHost(), "host", "127.0.0.1")
        try:
            demanding = check_tree_open(open_to_network, own, f"--listen {listen!r}", host)
        except ConfigurationError:
            await _as_deferred(port.stopListening())
            raise
        if demanding:
            server.admission.demand(own)
        listening = getattr(port, "socket", None)
        if listening is not None and "backlog=" not in listen:
            listening.listen(_BACKLOG)
        server.log.info(
            "serving the coordination tree in {data} at {listen}, {audience}",
            data=data,
            listen=listen,
            audience="to clients with credentials" if demanding else "to all who can connect",
        )
        supervised = _supervised(reactor, server, threads)
        try:
            await ended
        except CancelledError:
            server.log.info("stopping")
        finally:
            if supervised is not None:
                supervised.stop()
            await _as_deferred(port.stopListening())
    finally:
        outcome.is_closed = await fired_within(reactor, STOP_SECONDS, server.stop())
        if outcome.is_closed:
            threads.stop()
        else:
            server.log.critical(
                "the disk of {data} has not answered for {seconds:.0f} s, and is not waited for: changes that were "
                "acknowledged are on it, and the next start checks the rest",
                data=data,
                seconds=STOP_SECONDS,
            )


def _supervised(reactor: Any, server: CoordinationServer, threads: DiskThreads) -> Supervised | None:
    """Report to the supervisor of this process, if it has one, from now on."""
    socket = notify_socket()
    if socket is None:
        return None

    def status() -> str:
        figures = metrics(server) if server.serving else {}
        connections, nodes = figures.get("num_alive_connections", 0), figures.get("znode_count", 0)
        problem = server.problem
        return f"not served: {problem}" if problem else f"serves {nodes} nodes to {connections} connections"

    supervised = Supervised(
        reactor,
        socket,
        watchdog_seconds(),
        lambda: server.serving,
        status,
        lambda: "a thread for the disk has ended" if threads.lost else None,
    )
    supervised.start()
    return supervised


def check_directory(data: str) -> None:
    """Create the directory as brokers do, not readable for others; refuse the data directory of a broker."""
    make_folder(LocalFiles(), data)
    try:
        names = os.listdir(data)
    except OSError as error:
        raise DataDirectoryError(f"directory {data} cannot be used: {error}") from error
    if META in names or TOPICS in names:
        raise DataDirectoryError(
            f"{data} is a broker's data directory: give the coordination tree a directory of its own, such as "
            f"{data.rstrip('/')}-zookeeper"
        )


def _as_deferred(result: Any) -> Deferred[Any]:
    if isinstance(result, Deferred):
        return result
    done: Deferred[Any] = Deferred()
    done.callback(result)
    return done
