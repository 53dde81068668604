"""The processes of the consumer group: start, kill and stop them, and wait for what they handle."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from attrs import define, field

from demo.patience import PATIENCE
from demo.records import Account, gather, noted

CONSUMERS = 3
#: Seconds between two counts of the handled messages.
_POLL_SECONDS = 0.1


@define(eq=False)
class Group:
    """Consumer processes that record the messages they handle under ``folder``."""

    folder: Path
    brokers: str
    zookeeper: str
    processes: list[subprocess.Popen[bytes]] = field(factory=list)

    def start(self) -> None:
        """Start the consumers."""
        for number in range(CONSUMERS):
            own = self.folder / str(number)
            own.mkdir(parents=True)
            command = [sys.executable, "-m", "demo.consume", self.brokers, self.zookeeper, str(own)]
            with open(self.folder / f"{number}.log", "ab") as log:
                self.processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def wait_for(self, records: int) -> int:
        """Wait for this number of records, repeated messages included; return the number reached.

        Raises TimeoutError after PATIENCE without progress.
        """
        seen, deadline = 0, time.monotonic() + PATIENCE
        while (now := noted(self.folder)) < records:
            if now != seen:
                seen, deadline = now, time.monotonic() + PATIENCE
            if time.monotonic() > deadline:
                raise TimeoutError(f"the consumers handled {now:,} of {records:,} messages; see {self.folder}/*.log")
            time.sleep(_POLL_SECONDS)
        return now

    def wait_for_all(self, messages: int) -> dict[str, Account]:
        """Wait until this number of different messages was handled; return the accounts by partition."""
        wanted = messages
        while True:
            seen = self.wait_for(wanted)
            accounts = gather(self.folder)
            missing = messages - sum(account.messages for account in accounts.values())
            if missing <= 0:
                return accounts
            wanted = seen + 1  # the last record may have been written during the count

    def kill_one(self) -> None:
        """Kill the first consumer by SIGKILL."""
        process = self.processes.pop(0)
        process.kill()
        process.wait()

    def stop(self) -> list[int]:
        """Stop the remaining consumers by SIGTERM, so that they leave the group; return their exit statuses."""
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        statuses = [process.wait(PATIENCE) for process in self.processes]
        self.processes.clear()
        return statuses

    def kill(self) -> None:
        """Kill the remaining consumers."""
        while self.processes:
            self.kill_one()
