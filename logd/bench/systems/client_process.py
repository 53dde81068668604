"""The process of a client, seen from the bench: started with a load, awaited, and killed with all that it started."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from attrs import asdict, define

from logd.bench.systems import process_group
from logd.bench.systems.client_main import Measured
from logd.bench.systems.load import PATIENCE_SECONDS, Load
from logd.bench.systems.peer import Peer, PeerClient
from logd.errors import LogdError


@define(eq=False)
class ClientProcess:
    """One client's process, started when this is made."""

    client: PeerClient
    process: subprocess.Popen[bytes]

    @classmethod
    def start(cls, client: PeerClient, part: str, peer: Peer, load: Load) -> ClientProcess:
        """Start it; ``part`` is produce or consume."""
        fetched = peer.places.python_folder()
        folders = [*filter(None, sys.path), *([fetched] if fetched else [])]
        words = [client.module, part, f"127.0.0.1:{peer.port}", json.dumps(asdict(load)), peer.option(client)]
        return cls(
            client,
            process_group.start(
                [sys.executable, "-m", *words],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
            ),
        )

    def result(self) -> Measured:
        """Wait for the process to end, and return its result. Raises LogdError if it failed or took too long."""
        try:
            output, errors = self.process.communicate(timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise LogdError(
                f"{self.client.name} had not finished after {PATIENCE_SECONDS:g} s, and was killed"
            ) from None
        except BaseException:  # Ctrl-C as well: nothing may go on when the bench ends
            self.kill()
            raise
        if self.process.returncode:
            last = errors.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no message"]
            raise LogdError(f"{self.client.name} failed: {last[0][:300]}")
        return Measured(**json.loads(output.splitlines()[-1]))

    def kill(self) -> None:
        """Kill the process and those that it has started, and wait for its end."""
        process_group.kill(self.process)
        self.process.communicate()
