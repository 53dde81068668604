"""Start a broker with twistd, publish logs from one process, read them in another, compare, and stop the broker."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from logd.testing.processes import BrokerProcess

console = Console()


def run(module: str, address: str) -> dict[str, Any]:
    """Run another process of the demonstration, and return what it printed."""
    finished = subprocess.run([sys.executable, "-m", module, address], stdout=subprocess.PIPE, check=True, timeout=300)
    account: dict[str, Any] = json.loads(finished.stdout)
    return account


def rates(account: dict[str, Any]) -> str:
    """How fast it went."""
    seconds = account["seconds"]
    return (
        f"{account['messages']:,} messages, {account['bytes'] / 1e6:,.1f} MB in {seconds:.1f} s: "
        f"{account['messages'] / seconds:,.0f} messages/s, {account['bytes'] / 1e6 / seconds:,.1f} MB/s"
    )


def compare(published: dict[str, Any], read: dict[str, Any]) -> bool:
    """Show both accounts side by side; return whether they agree in every partition."""
    table = Table(title="published = read back?")
    for heading in ("partition", "messages", "bytes", "SHA-256 in order", "the same"):
        table.add_column(heading, justify="right" if heading in ("messages", "bytes") else "left")
    same = True
    for name in sorted({*published["partitions"], *read["partitions"]}):
        ours, theirs = published["partitions"].get(name), read["partitions"].get(name)
        agrees = ours == theirs
        same = same and agrees
        shown = ours or theirs
        table.add_row(
            name,
            f"{shown['messages']:,}",
            f"{shown['bytes']:,}",
            shown["sha256"][:16] + "...",
            "yes" if agrees else "[bold red]NO[/]",
        )
    console.print(table)
    return same


def main() -> int:
    """Exit status 0 when nothing was lost, changed or reordered."""
    folder = Path(tempfile.mkdtemp(prefix="logd-demo-"))
    broker = BrokerProcess(str(folder / "data"), log_path=str(folder / "broker.log"))
    try:
        console.print(f"starting a broker: twistd -n logd --data {broker.data} --listen tcp:{broker.port}")
        broker.start()
        published = run("demo.publish", broker.address)
        console.print(
            f"collected {published['files']} log files from {published['source']}: "
            f"{published['real_messages']:,} lines, {published['real_bytes'] / 1e6:,.1f} MB; "
            f"the rest are made-up lines of a web server"
        )
        console.print(f"published    {rates(published)} (each message flushed to the disk)")
        read = run("demo.readback", broker.address)
        console.print(f"read back    {rates(read)} (by another process, every checksum verified)")
        same = compare(published, read)
        status = broker.stop()
        console.print(f"broker stopped by SIGTERM, exit status {status}")
        if same and status == 0:
            console.print("[bold green]nothing was lost, changed or reordered within a partition[/]")
            return 0
        console.print(f"[bold red]that is not right; the broker's log: {folder / 'broker.log'}[/]")
        return 1
    finally:
        broker.kill()  # nothing, once it was stopped
        if sys.exc_info()[0] is None:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
