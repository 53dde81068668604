"""A cluster, real logs, a group of consumers of which one is killed, an import by Spark; and everything is counted.

    python -m demo [LOGS]      LOGS: a folder whose text logs are published, such as /var/log

Without LOGS nothing of this machine is read but samples beside the checkout, if there are any; the lines of a web
server are made up.
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
from demo.publish import PARTITIONS
from demo.records import Account
from demo.sources import SAMPLES

console = Console()

#: One consumer is killed when so many messages were handled; between the imports so many more are published.
KILL_AT = 150_000
MORE = 10_000


def publish(addresses: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Begin to publish, in a process of its own; see there for the arguments."""
    command = [sys.executable, "-m", "demo.publish", addresses, *arguments]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)


def published_by(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Wait for it, and return its account."""
    output, _ = process.communicate(timeout=300)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    account: dict[str, Any] = json.loads(output)
    return account


def rates(account: Mapping[str, Any]) -> str:
    """How fast it went."""
    seconds = account["seconds"]
    return (
        f"{account['messages']:,} messages, {account['bytes'] / 1e6:,.1f} MB in {seconds:.1f} s: "
        f"{account['messages'] / seconds:,.0f} messages/s, {account['bytes'] / 1e6 / seconds:,.1f} MB/s"
    )


def compare(published: Mapping[str, Any], handled: Mapping[str, Account]) -> bool:
    """Show both accounts side by side; return whether they agree in every partition."""
    table = Table(title="published = handled by the group?")
    for heading in ("partition", "published", "handled", "delivered twice", "SHA-256 in order", "the same"):
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
    """Publish and consume at the same time, kill a consumer on the way, and compare."""
    publishing = publish(servers.addresses, *([str(logs)] if logs is not None else []))
    group.start()
    console.print(f"started a group of {CONSUMERS} consumers, each a process of its own")
    handled = group.wait_for(KILL_AT)
    group.kill_one()
    console.print(f"[bold]killed one consumer (SIGKILL)[/] when the group had handled {handled:,} messages")
    published = published_by(publishing)
    console.print(
        f"collected {published['files']} log files: "
        f"{published['real_messages']:,} lines, {published['real_bytes'] / 1e6:,.1f} MB; "
        f"the rest are made-up lines of a web server"
    )
    console.print(f"published    {rates(published)} (each message flushed to a disk)")
    accounts = group.wait_for_all(published["messages"])
    left = group.stop()
    again = sum(account.again for account in accounts.values())
    same = compare(published, accounts)
    console.print(f"handled      {sum(a.messages for a in accounts.values()):,} different messages by group {GROUP}")
    console.print(
        f"delivered twice: {again:,}: what the killed consumer had handled and not committed yet (at least once)"
    )
    return same and not any(left), published


def import_all(addresses: str, target: Path, published: int) -> bool:
    """Load everything, publish a little more, load that, and ask the files; return whether the counts agree."""
    reason = why_not()
    if reason is not None:
        console.print(f"[yellow]no import by Spark: {reason}[/]")
        return True
    first = load(addresses, target)
    console.print(f"imported     {first['messages']:,} messages by Spark, visible at once as {target.name}/run=...")
    more = published_by(publish(addresses, "--more", str(MORE)))["messages"]
    second = load(addresses, target)
    console.print(f"imported     {second['messages']:,} messages the second time: {more:,} had been published since")
    rows, answer = ask(target)
    table = Table(title="status codes of the web log, asked of the imported files")
    for heading in ("status", "lines", "partitions"):
        table.add_column(heading, justify="right")
    for row in answer:
        table.add_row(str(row[0]), *(f"{each:,}" for each in row[1:]))
    console.print(table)
    agree = (first["messages"], second["messages"], rows) == (published, more, published + more)
    console.print(f"in the files: {rows:,} messages; published: {published + more:,}")
    return agree


def main() -> int:
    """Exit status 0 when nothing was lost, changed or reordered, in the group or in the files."""
    logs = Path(sys.argv[1]) if len(sys.argv) > 1 else SAMPLES if SAMPLES.is_dir() else None
    if logs is not None and not logs.is_dir():
        console.print(f"{logs} is not a directory: say where text logs are, or nothing for made-up ones")
        return 2
    folder = Path(tempfile.mkdtemp(prefix="logd-demo-"))
    servers = Servers(folder)
    group = Group(folder / "group", servers.addresses, servers.tree.hosts)
    try:
        console.print(f"starting logd zookeeper at {servers.tree.hosts} and three brokers at {servers.addresses}")
        console.print(f"two topics of {PARTITIONS} partitions each, shared out among the brokers")
        if logs is None:
            console.print("publishing made-up lines of a web server (make demo LOGS=/var/log: real ones as well)")
        else:
            console.print(f"publishing the text logs below {logs}, and made-up lines of a web server")
        servers.start()
        same, published = consume_all(servers, group, logs)
        loaded = import_all(servers.addresses, folder / "imported", published["messages"])
        statuses = servers.stop()
        console.print(f"servers stopped by SIGTERM, exit statuses {statuses}")
        if same and loaded and not any(statuses):
            console.print("[bold green]nothing was lost, changed or reordered within a partition[/]")
            return 0
        console.print(f"[bold red]that is not right; the servers' logs are in {folder}[/]")
        return 1
    finally:
        group.kill()
        servers.kill()  # nothing, once they were stopped
        if sys.exc_info()[0] is None:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
