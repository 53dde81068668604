"""Publish logs to a cluster, kill one consumer of a group, import the logs with Spark, and count everything.

Then show a pipeline: events whose schema evolves go from a live cluster to an offline one by a mirror, servers are
killed meanwhile, and the audit says whether anything is missing.

    python -m demo [LOGS]      LOGS: a folder whose text logs are published, such as /var/log

Without LOGS only made-up lines of a web server are published, and no log of this machine is read.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from demo.cluster import Servers
from demo.consume import GROUP
from demo.group import CONSUMERS, Group
from demo.load import ask, load, why_not
from demo.patience import PATIENCE
from demo.publish import PARTITIONS
from demo.records import Account
from demo.show_pipeline import show_pipeline
from logd.plurals import counted

console = Console()

#: The number of handled messages at which one consumer is killed.
KILL_AT = 150_000
#: The number of messages that are published between the first import and the second.
MORE = 10_000


def publish(addresses: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Start ``python -m demo.publish`` with these arguments, and return its process."""
    command = [sys.executable, "-m", "demo.publish", addresses, *arguments]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)


def published_by(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Wait until a publishing process ends, and return its account. Raises CalledProcessError if it failed."""
    output, _ = process.communicate(timeout=PATIENCE)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    account: dict[str, Any] = json.loads(output)
    return account


def rates(account: Mapping[str, Any]) -> str:
    """Return an account's messages, bytes and rates as text."""
    seconds = account["seconds"]
    return (
        f"{account['messages']:,} messages, {account['bytes'] / 1e6:,.1f} MB in {seconds:.1f} s: "
        f"{account['messages'] / seconds:,.0f} messages/s, {account['bytes'] / 1e6 / seconds:,.1f} MB/s"
    )


def compare(published: Mapping[str, Any], handled: Mapping[str, Account]) -> bool:
    """Print both accounts side by side; return True when they agree in every partition."""
    table = Table(title="published and handled, partition by partition")
    for heading in ("partition", "published", "handled", "delivered twice", "SHA-256 in order", "equal"):
        table.add_column(heading, justify="left" if heading in ("partition", "SHA-256 in order") else "right")
    same = True
    for name in sorted({*published["partitions"], *handled}):
        ours = published["partitions"].get(name, {"messages": 0, "sha256": "-"})
        theirs = handled.get(name, Account(0, "-", 0, 0))
        agrees = (ours["messages"], ours["sha256"], 0) == (theirs.messages, theirs.sha256, theirs.differing)
        same = same and agrees
        table.add_row(
            name,
            f"{ours['messages']:,}",
            f"{theirs.messages:,}",
            f"{theirs.again:,}",
            ours["sha256"][:16] + "...",
            "yes" if agrees else "[bold red]NO[/]",
        )
    console.print(table)
    return same


def consume_all(servers: Servers, group: Group, logs: Path | None) -> tuple[bool, dict[str, Any]]:
    """Publish and consume at the same time, kill one consumer meanwhile, and compare.

    Returns True when everything agrees, and the account of the messages that were published.
    """
    publishing = publish(servers.addresses, *([str(logs)] if logs is not None else []))
    group.start()
    console.print(f"started {CONSUMERS} consumers of group {GROUP}, each in a process of its own")
    handled = group.wait_for(KILL_AT)
    group.kill_one()
    console.print(f"[bold]killed one consumer (SIGKILL)[/] after the group had handled {handled:,} messages")
    published = published_by(publishing)
    if logs is not None:
        console.print(
            f"read {counted(published['files'], 'log file')}: "
            f"{published['real_messages']:,} lines, {published['real_bytes'] / 1e6:,.1f} MB; "
            f"all other messages are made-up lines of a web server"
        )
    console.print(f"published    {rates(published)} (each message flushed to disk)")
    accounts = group.wait_for_all(published["messages"])
    left = group.stop()
    again = sum(account.again for account in accounts.values())
    same = compare(published, accounts)
    console.print(f"handled      {sum(a.messages for a in accounts.values()):,} different messages")
    console.print(f"delivered twice: {again:,}, which the killed consumer had handled but not committed")
    return same and not any(left), published


def import_all(addresses: str, target: Path, published: int) -> bool:
    """Import everything, publish more messages, import those, and query the files.

    Returns True when the counts agree, or when Spark cannot run here.
    """
    reason = why_not()
    if reason is not None:
        console.print(f"[yellow]skipped the import by Spark: {reason}[/]")
        return True
    first = load(addresses, target)
    console.print(f"imported     {first['messages']:,} messages with Spark, visible at once as {target.name}/run=...")
    more = published_by(publish(addresses, "--more", str(MORE)))["messages"]
    second = load(addresses, target)
    console.print(
        f"imported     {second['messages']:,} messages with a second import; {more:,} were published since the first"
    )
    rows, answer = ask(target)
    table = Table(title="status codes of the web log, queried from the imported files")
    for heading in ("status", "lines", "partitions"):
        table.add_column(heading, justify="right")
    for row in answer:
        table.add_row(str(row[0]), *(f"{each:,}" for each in row[1:]))
    console.print(table)
    agree = (first["messages"], second["messages"], rows) == (published, more, published + more)
    console.print(f"the imported files hold {rows:,} messages, and {published + more:,} were published")
    return agree


def main() -> int:
    """Run the demonstration; return 0 when nothing was lost, changed or reordered, 1 otherwise, 2 for a wrong LOGS."""
    logs = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    if logs is not None and not logs.is_dir():
        console.print(
            f"{logs} is not a directory: name a folder of text logs, or leave it out to publish made-up lines only"
        )
        return 2
    folder = Path(tempfile.mkdtemp(prefix="logd-demo-"))
    servers = Servers(folder)
    group = Group(folder / "group", servers.addresses, servers.tree.hosts)
    try:
        console.print(f"starting logd zookeeper at {servers.tree.hosts} and three brokers at {servers.addresses}")
        console.print(f"each of the two topics has {PARTITIONS} partitions, which are spread over the brokers")
        if logs is None:
            console.print("publishing made-up lines of a web server (for real logs as well: make demo LOGS=/var/log)")
        else:
            console.print(f"publishing the text logs below {logs}, and made-up lines of a web server")
        servers.start()
        same, published = consume_all(servers, group, logs)
        loaded = import_all(servers.addresses, folder / "imported", published["messages"])
        statuses = servers.stop()
        console.print(f"stopped the servers by SIGTERM; their exit statuses are {', '.join(map(str, statuses))}")
        complete = show_pipeline(console, folder / "pipeline")
        if same and loaded and complete and not any(statuses):
            console.print("[bold green]success: nothing was lost, changed or reordered within a partition[/]")
            return 0
        console.print(
            f"[bold red]failure: messages, counts or exit statuses differ; the servers' logs are in {folder}[/]"
        )
        return 1
    finally:
        group.kill()
        servers.kill()  # does nothing to servers that have stopped
        if sys.exc_info()[0] is None:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
