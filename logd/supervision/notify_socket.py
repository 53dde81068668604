"""The socket of a supervisor, by the protocol of sd_notify(3): datagrams of lines ``NAME=value``."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from attrs import frozen

#: The environment variables of sd_notify(3) and sd_watchdog_enabled(3).
SOCKET_VARIABLE, WATCHDOG_VARIABLE, PROCESS_VARIABLE = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"
#: The shortest watchdog time in seconds that is kept; a shorter one is the mistake of whoever wrote it.
SHORTEST_WATCHDOG = 0.1


@frozen
class NotifySocket:
    """The address of a supervisor's datagram socket: a path, or a name in Linux' abstract namespace."""

    address: str

    def tell(self, **lines: str) -> bool:
        """Send ``lines`` in one datagram, never waiting. Return False if the supervisor cannot take it now."""
        text = "\n".join(f"{name}={value.translate(_ONE_LINE)}" for name, value in lines.items())
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.setblocking(False)
                sender.sendto(text.encode("utf-8", "replace"), self.address)
        except OSError:
            return False
        return True


_ONE_LINE = str.maketrans({"\n": " ", "\r": " ", "\0": " "})


def notify_socket(environ: Mapping[str, str] = os.environ) -> NotifySocket | None:
    """Return the supervisor's socket; None without one, or if it is of a kind that is not known."""
    address = environ.get(SOCKET_VARIABLE, "")
    if address.startswith("/"):
        return NotifySocket(address)
    if address.startswith("@") and len(address) > 1:
        return NotifySocket("\0" + address[1:])
    return None


def watchdog_seconds(environ: Mapping[str, str] = os.environ) -> float | None:
    """Return the time within which the supervisor expects a sign of life from this process; None if it expects none."""
    process, time = environ.get(PROCESS_VARIABLE, ""), environ.get(WATCHDOG_VARIABLE, "")
    if process and process != str(os.getpid()):
        return None
    if not (time.isascii() and time.isdigit()) or int(time) == 0:
        return None
    return max(int(time) / 1_000_000, SHORTEST_WATCHDOG)
