"""``python -m tests.documentation.reader PAGE FOLDER``: follow a page, as a person at a terminal would.

Runs as root in namespaces of its own (see ``tests/integration/documents/test_documentation.py``): a network with
only loopback, so that the ports of the pages are free; and overlays over the directories that pages name, so that no
file written there lasts. Prints each block that was run or not, and ends with status 1 at the first difference.
"""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
import socket
import struct
import subprocess
import sys
from fcntl import ioctl
from pathlib import Path

from logd.errors import ConfigurationError
from logd.tap import Options
from tests.documentation.pages import SHOWN, Block, blocks_of, typed
from tests.documentation.terminal import Terminals, Unlike

#: Directories that pages write to.
_LAYERED = ("/tmp", "/etc", "/srv", "/var/lib", "/var/log")
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1


def isolate() -> None:
    """Bring loopback up, and mount overlays, which end with this process, over _LAYERED. Raises OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", ioctl(probe, _SIOCGIFFLAGS, request))[1]
        ioctl(probe, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))
    subprocess.run(["mount", "-t", "tmpfs", "none", "/mnt"], check=True)
    for number, place in enumerate(_LAYERED):
        above, work = f"/mnt/{number}", f"/mnt/{number}.work"
        os.makedirs(above)
        os.makedirs(work)
        layers = f"lowerdir={place},upperdir={above},workdir={work}"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, place], check=True)
        os.chmod(place, 0o1777 if place == "/tmp" else 0o755)


def clear(page: Path) -> None:
    """Remove what somebody who followed the page by hand has left in /tmp, in the overlay alone."""
    for name in set(re.findall(r"/tmp/[\w.-]+", page.read_text(encoding="utf-8"))):
        if os.path.isdir(name) and not os.path.islink(name):
            shutil.rmtree(name)
        else:
            Path(name).unlink(missing_ok=True)


def read(page: Path, folder: Path) -> None:
    """Follow the page in ``folder``. Raises Unlike at the first difference from the page."""
    (folder / ".venv").symlink_to(sys.prefix)
    terminals = Terminals(folder)
    if page.name != "README.md":  # its first block activates the environment itself
        terminals.type(". .venv/bin/activate")
    for block in blocks_of(page.read_text(encoding="utf-8")):
        where = f"{page.name}:{block.line}"
        reason = block.comment("not run")
        if reason is not None or block.language in SHOWN:
            print(f"{where}: not run: {reason or 'shown alone'}", flush=True)
            continue
        try:
            _do(block, terminals, folder)
        except (Unlike, ConfigurationError, ValueError) as error:
            raise Unlike(f"{where}: {error}") from error
        print(f"{where}: {block.language} {block.name}".rstrip(), flush=True)
    terminals.stop()


def _do(block: Block, terminals: Terminals, folder: Path) -> None:
    if block.comment("stop") is not None:
        terminals.stop()
    prepared = block.comment("first")
    if prepared is not None:
        terminals.type(prepared)
    if block.name:
        (folder / block.name).write_text(block.text, encoding="utf-8")
    if block.language == "console":
        for each in typed(block):
            shown = terminals.type(each.command)
            if each.shown and shown.rstrip("\n").split("\n") != list(each.shown):
                expected = "\n".join(each.shown)
                raise Unlike(f"$ {each.command}\nshows\n{shown}\nand not\n{expected}\n{terminals.elsewhere()}")
    elif block.language == "sh":
        terminals.type(block.text)
    elif block.language == "python" and not block.name:
        program = folder / "program.py"
        before = program.read_text(encoding="utf-8") if block.comment("continues") is not None else ""
        program.write_text(before + block.text, encoding="utf-8")
        terminals.type("python program.py")
    elif block.language == "toml":
        _check_settings(folder, block.text)
    elif block.language == "ini":
        _check_unit(block.text)
    checked = block.comment("then")
    if checked is not None:
        terminals.type(checked)


def _check_settings(folder: Path, text: str) -> None:
    path = folder / ".settings.toml"
    path.write_text(text, encoding="utf-8")
    Options().parseOptions(["--data", "data", "--config", str(path)])


def _check_unit(text: str) -> None:
    """Raise ConfigurationError or UsageError for a unit whose command `twistd logd` does not accept."""
    unit = configparser.ConfigParser(interpolation=None)
    unit.read_string(text)
    _, _, options = unit["Service"]["ExecStart"].replace("/logd broker ", " logd ").partition(" logd ")
    words = [word for word in shlex.split(options) if not word.endswith(".toml") and word != "--config"]
    Options().parseOptions(["--data", "data", *words])


def main() -> int:
    """Return the exit status."""
    page, folder = Path(sys.argv[1]), Path(sys.argv[2])
    if os.getpid() != 1:  # the mounts would be those of the whole machine, and would stay
        print(f"{Path(__file__).name} mounts over /tmp and /etc: run it by tests.integration.documents, in namespaces")
        return 2
    isolate()
    clear(page)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        read(page, folder)
    except Unlike as error:
        print(error, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
