"""The four-letter words: questions from a person or a monitor to a server, without a session.

``ruok`` is answered ``imok`` while the tree is served, and not at all otherwise; ``isro`` is answered ``rw``. ``srvr``,
``stat``, ``cons``, ``wchs`` and ``conf`` are for people, ``envi`` and ``mntr`` for programs, in the formats of
ZooKeeper 3.9. Metrics of ``mntr`` have ZooKeeper's names where ZooKeeper has them.
"""

from __future__ import annotations

import os
import platform
import resource
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from logd import __version__

if TYPE_CHECKING:
    from logd.coord.server.server import CoordinationServer

#: The ZooKeeper release whose protocol this is: clients check the number to learn the supported requests.
_SPOKEN = "3.9.0"
VERSION = f"{_SPOKEN}-logd-{__version__}, built on 01/01/2026 00:00 UTC"


def answer_word(server: CoordinationServer, word: bytes) -> bytes:
    """Return the answer to a word; empty when the tree is not served, as a monitor expects."""
    make = _WORDS.get(word)
    if make is None:
        return f"{word.decode('ascii', 'replace')} is not executed because it is not in the whitelist.\n".encode()
    if not server.serving:
        return b"" if word == b"ruok" else b"This ZooKeeper instance is not currently serving requests\n"
    return make(server).encode()


def _srvr(server: CoordinationServer) -> str:
    counters = server.counters
    average = counters.latency_total / counters.answers if counters.answers else 0.0
    return (
        f"Zookeeper version: {VERSION}\n"
        f"Latency min/avg/max: 0/{average * 1000:.4f}/{round(counters.latency_longest * 1000)}\n"
        f"Received: {counters.packets_received}\n"
        f"Sent: {counters.packets_sent}\n"
        f"Connections: {len(server.connections)}\n"
        f"Outstanding: {_outstanding(server)}\n"
        f"Zxid: {server.flushed:#x}\n"
        "Mode: standalone\n"
        f"Node count: {len(server.tree.nodes)}\n"
    )


def _stat(server: CoordinationServer) -> str:
    head, _, rest = _srvr(server).partition("\n")
    return f"{head}\nClients:\n{_cons(server)}\n{rest}"


def _cons(server: CoordinationServer) -> str:
    return "".join(f" /{each.peer}[1](queued={each.pending},sid={each.session_id:#x})\n" for each in server.connections)


def _envi(server: CoordinationServer) -> str:
    rows = {
        "zookeeper.version": VERSION,
        "host.name": socket.gethostname(),
        "java.version": "none",
        "python.version": platform.python_version(),
        "os.name": platform.system(),
        "os.arch": platform.machine(),
        "os.version": platform.release(),
        "user.dir": os.getcwd(),
    }
    return "Environment:\n" + "".join(f"{name}={value}\n" for name, value in rows.items())


def _mntr(server: CoordinationServer) -> str:
    return "".join(f"zk_{name}\t{value}\n" for name, value in metrics(server).items())


def metrics(server: CoordinationServer) -> dict[str, str | int | float]:
    """Return the server's metrics, by the names that ``mntr`` prefixes with ``zk_``."""
    counters, tree, journal = server.counters, server.tree, server.storage.journal
    return {
        "version": VERSION,
        "server_state": "standalone",
        "avg_latency": round(counters.latency_total / counters.answers * 1000, 4) if counters.answers else 0,
        "max_latency": round(counters.latency_longest * 1000),
        "min_latency": 0,
        "packets_received": counters.packets_received,
        "packets_sent": counters.packets_sent,
        "bytes_received_count": counters.bytes_received,
        "response_bytes": counters.bytes_sent,
        "num_alive_connections": len(server.connections),
        "connection_request_count": counters.connections_accepted,
        "connection_rejected": counters.connections_refused,
        "protocol_violations": counters.protocol_violations,
        "auth_failed_count": counters.authentications_failed,
        "outstanding_requests": _outstanding(server),
        "znode_count": len(tree.nodes),
        "watch_count": len(tree.watches.data) + len(tree.watches.children),
        "watch_events": counters.watch_events,
        "ephemerals_count": sum(map(len, tree.ephemerals.values())),
        "approximate_data_size": tree.data_bytes,
        "znode_bytes": tree.cost_bytes,
        "global_sessions": len(tree.sessions),
        "sessions_opened": counters.sessions_opened,
        "stale_sessions_expired": counters.sessions_expired,
        "open_file_descriptor_count": _open_files(),
        "max_file_descriptor_count": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "uptime": round((server.clock.seconds() - counters.started_at) * 1000),
        "last_zxid": server.flushed,
        "cnt_fsynctime": journal.syncs,
        "snap_count": server.storage.snapshots,
        "snapshot_error_count": int(server.storage.snapshot_error is not None),
    }


def _open_files() -> int:
    """Return the number of files and sockets that this process has open; -1 if the system does not tell."""
    try:
        return len(os.listdir("/proc/self/fd")) - 1  # without the descriptor of this listing
    except OSError:
        return -1


def _wchs(server: CoordinationServer) -> str:
    watches = server.tree.watches
    return (
        f"{watches.sessions()} connections watching {watches.paths()} paths\n"
        f"Total watches:{len(watches.data) + len(watches.children)}\n"
    )


def _conf(server: CoordinationServer) -> str:
    settings = server.settings
    rows = {
        "dataDir": server.folder,
        "maxClientCnxns": settings.connections,
        "minSessionTimeout": settings.shortest_session_ms,
        "maxSessionTimeout": settings.longest_session_ms,
        "jute.maxbuffer": settings.frame_bytes,
        "serverId": 0,
    }
    return "".join(f"{name}={value}\n" for name, value in rows.items())


def _outstanding(server: CoordinationServer) -> int:
    return sum(each.pending for each in server.connections)


_WORDS: dict[bytes, Callable[[CoordinationServer], str]] = {
    b"ruok": lambda server: "imok",
    b"isro": lambda server: "rw",
    b"srvr": _srvr,
    b"stat": _stat,
    b"cons": _cons,
    b"wchs": _wchs,
    b"conf": _conf,
    b"envi": _envi,
    b"mntr": _mntr,
}
