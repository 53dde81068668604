"""The group of consumers, seen by who starts them: one is killed on the way, the others take over."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from attrs import define, field

from demo.records import Account, gather, noted

CONSUMERS = 3
#: Seconds between two looks at what was handled.
_POLL_SECONDS = 0.1
#: Seconds without progress after which something is wrong.
_PATIENCE = 60.0


@define(eq=False)
class Group:
    """Consumer processes that note what they handle under ``folder``."""

    folder: Path
    brokers: str
    zookeeper: str
    processes: list[subprocess.Popen[bytes]] = field(factory=list)

    def start(self) -> None:
        """Start all of them."""
        for number in range(CONSUMERS):
            place = self.folder / str(number)
            place.mkdir(parents=True)
            command = [sys.executable, "-m", "demo.consume", self.brokers, self.zookeeper, str(place)]
            with open(self.folder / f"{number}.log", "ab") as log:
                self.processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def wait_for(self, records: int) -> int:
        """Wait until so many messages were noted, twice or not; return how many were. Raises TimeoutError."""
        seen, deadline = 0, time.monotonic() + _PATIENCE
        while (now := noted(self.folder)) < records:
            if now != seen:
                seen, deadline = now, time.monotonic() + _PATIENCE
            if time.monotonic() > deadline:
                raise TimeoutError(f"the consumers handled {now:,} of {records:,} messages; see {self.folder}/*.log")
            time.sleep(_POLL_SECONDS)
        return now

    def wait_for_all(self, messages: int) -> dict[str, Account]:
        """Wait until so many different messages were handled, and return the accounts."""
        wanted = messages
        while True:
            seen = self.wait_for(wanted)
            accounts = gather(self.folder)
            missing = messages - sum(account.messages for account in accounts.values())
            if missing <= 0:
                return accounts
            wanted = seen + 1  # not of now: what was noted while it was read may have been the last

    def kill_one(self) -> None:
        """SIGKILL the first."""
        process = self.processes.pop(0)
        process.kill()
        process.wait()

    def stop(self) -> list[int]:
        """Have the rest leave the group; return their exit statuses."""
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        statuses = [process.wait(_PATIENCE) for process in self.processes]
        self.processes.clear()
        return statuses

    def kill(self) -> None:
        """End what is left of them."""
        while self.processes:
            self.kill_one()
