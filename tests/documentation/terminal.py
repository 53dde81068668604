"""Terminals of a person who follows a page: one for commands that end, and another for each that runs on."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

from attrs import define, field

#: Commands that run until they are interrupted, each in a terminal of its own.
_ENDLESS = re.compile(
    r"^(?:[A-Z_]+=\S+ )*(?:"
    r"twistd (?:\S+ )*-n\b|twistd -\w*n\w* |logd broker |logd zookeeper |tail -F "
    r"|logd mirror --|logd audit .*--follow"
    r"|logd collect (?!.*--once)|logd consume (?!.*--(?:exit-at-end|max))|python \S*forever)"
)
#: Commands of _ENDLESS that listen once they have started.
_SERVERS = re.compile(r"twistd .* logd |twistd .* logd-registry|logd broker |logd zookeeper ")
#: Commands of _ENDLESS whose reactor catches SIGTERM once the services have been started.
_APPLICATIONS = re.compile(r"twistd .*-y ")
#: Commands of _ENDLESS that print earlier messages at once.
_READERS = re.compile(r"logd consume ")
#: The longest time of a command, or until a server listens or has stopped, in seconds.
PATIENCE = 180.0
_POLL_SECONDS = 0.05
_SIGTERM = 1 << (signal.SIGTERM - 1)


class Unlike(Exception):
    """A command did not do what the page shows."""


@define
class _Elsewhere:
    """A command in a terminal of its own."""

    command: str
    process: int
    output: Path


@define
class Terminals:
    """A shell for commands that end; the other terminals inherit its environment and directory."""

    folder: Path
    _shell: subprocess.Popen[bytes] = field(init=False)
    _elsewhere: list[_Elsewhere] = field(factory=list, init=False)
    _count: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LOGD_")}
        self._shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile"], stdin=subprocess.PIPE, cwd=self.folder, env=environment
        )

    def type(self, command: str, patience: float = PATIENCE) -> str:
        """Type a command; return its output once it ends, or "" once an endless one has begun. Raises Unlike."""
        if _ENDLESS.match(command):
            self._open(command)
            return ""
        output, status = self._run(command, patience)
        if status:
            raise Unlike(f"$ {command}\nended with status {status}:\n{output}\n{self.elsewhere()}")
        return output

    def stop(self) -> None:
        """Press Ctrl-C in every other terminal, newest first. Raises Unlike for a command that does not end well."""
        wrong = []
        while self._elsewhere:
            each = self._elsewhere.pop()
            try:
                os.killpg(each.process, signal.SIGINT)
            except ProcessLookupError:
                wrong.append(f"had ended by itself: {each.command}\n{each.output.read_text(errors='replace')}")
                continue
            deadline = time.monotonic() + PATIENCE
            while _processes(each.process):
                if time.monotonic() > deadline:
                    wrong.append(f"did not end on Ctrl-C: {each.command}")
                    os.killpg(each.process, signal.SIGKILL)
                    break
                time.sleep(_POLL_SECONDS)
            text = each.output.read_text(errors="replace")
            if "Traceback" in text or "Unhandled" in text:
                wrong.append(f"showed an error: {each.command}\n{text}")
        if wrong:
            raise Unlike("\n".join(wrong))

    def elsewhere(self) -> str:
        """Return the last output of the other terminals."""
        return "\n".join(
            f"--- {each.command}\n{each.output.read_text(errors='replace')[-3000:]}" for each in self._elsewhere
        )

    def _run(self, command: str, patience: float) -> tuple[str, int]:
        self._count += 1
        output, status = self.folder / f".{self._count}.output", self.folder / f".{self._count}.status"
        assert self._shell.stdin is not None
        # In the shell itself, so that exported variables and the directory stay; the status is written in one piece.
        text = f"{{ {command}\n}} </dev/null >{output} 2>&1; echo $? >{status}.tmp; mv {status}.tmp {status}\n"
        self._shell.stdin.write(text.encode())
        self._shell.stdin.flush()
        deadline = time.monotonic() + patience
        while not status.exists():
            if time.monotonic() > deadline or self._shell.poll() is not None:
                shown = output.read_text(errors="replace") if output.exists() else ""
                raise Unlike(f"$ {command}\ndid not end in {patience:.0f} s:\n{shown}\n{self.elsewhere()}")
            time.sleep(_POLL_SECONDS)
        return output.read_text(errors="replace"), int(status.read_text())

    def _open(self, command: str) -> None:
        listening = _listening()
        self._count += 1
        output, process = self.folder / f".{self._count}.output", self.folder / f".{self._count}.process"
        output.touch()  # the shell opens it a moment later
        # Job control gives the command, with all that it pipes to, a process group of its own, as a terminal does.
        self._run(
            f"set -m; ( {command.rstrip().rstrip('&')}\n) >{output} 2>&1 </dev/null & echo $! >{process}; set +m",
            PATIENCE,
        )
        opened = _Elsewhere(command, int(process.read_text()), output)
        self._elsewhere.append(opened)
        deadline = time.monotonic() + PATIENCE

        def has_begun() -> bool:
            if _SERVERS.search(command):
                return bool(_listening() - listening)
            if _APPLICATIONS.search(command):
                return any(int(each["SigCgt"], 16) & _SIGTERM for each in _processes(opened.process))
            return not _READERS.search(command) or output.stat().st_size > 0

        while not has_begun():
            if time.monotonic() > deadline or not _processes(opened.process):
                raise Unlike(f"$ {command}\ndoes not begin:\n{output.read_text(errors='replace')}\n{self.elsewhere()}")
            time.sleep(_POLL_SECONDS)


def _processes(group: int) -> list[dict[str, str]]:
    """Return the fields of /proc/PID/status of the processes of a group that run; zombies are left out."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "stat").read_text().rpartition(")")[2].split()
            if int(words[2]) == group and words[0] != "Z":
                lines = (process / "status").read_text().splitlines()
                found.append({name: text.strip() for name, _, text in (line.partition(":") for line in lines)})
        except OSError:  # it has just ended
            continue
    return found


def _listening() -> set[str]:
    """Return the TCP addresses on which a process listens, as the system writes them."""
    addresses = set()
    for table in ("/proc/self/net/tcp", "/proc/self/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A":
                addresses.add(words[1])
    return addresses
