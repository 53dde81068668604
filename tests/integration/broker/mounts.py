"""Small file systems for one test: one that is soon full, and one on a disk that begins to fail."""

from __future__ import annotations

import errno
import os
import subprocess
import time
from collections.abc import Callable
from enum import Enum
from pathlib import Path

from twisted.trial.unittest import SkipTest

from tests.integration.peers import PATIENCE, POLL_SECONDS

#: Bytes that a failing disk claims to have.
SAID = 64 << 20


class Journal(Enum):
    """The journal of the file system on a failing disk."""

    #: Blocks of the file system itself may fail unnoticed.
    NONE = "none"
    #: All blocks but those of data are in the image from the start, so that only writes of data fail.
    SOUND = "sound"
    #: Its blocks fail too: the file system stops.
    FAILING = "failing"


def mount_small(path: Path, size: int, undo: Callable[..., object]) -> None:
    """Mount a tmpfs of ``size`` bytes at ``path``, and let ``undo`` unmount it. Raises SkipTest without root."""
    path.mkdir(parents=True, exist_ok=True)
    _run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path))
    undo(_run, "umount", "-l", str(path))


def enlarge(path: Path, size: int) -> None:
    """Give the file system of ``mount_small`` a new size, in bytes."""
    _run("mount", "-o", f"remount,size={size}", str(path))


def mount_failing(path: Path, image: Path, undo: Callable[..., object], *, journal: Journal = Journal.NONE) -> None:
    """Mount a file system in the file ``image`` at ``path``; its writes fail once ``image`` cannot grow any more.

    To make reads fail as well, cut the file short.
    """
    path.mkdir(parents=True, exist_ok=True)
    image.touch()
    os.truncate(image, SAID)
    kind = ("-O", "^has_journal") if journal is Journal.NONE else ("-J", "size=4")
    _run("mkfs.ext4", "-q", *kind, "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard", str(image))
    mount_image(path, image)
    undo(_run, "umount", "-l", str(path))
    if journal is Journal.SOUND:
        with open(image, "r+b") as file:
            os.posix_fallocate(file.fileno(), 0, SAID)
        _run("fstrim", str(path))  # gives back the blocks that are free


def mount_image(path: Path, image: Path) -> None:
    """Mount the file system of ``mount_failing`` again."""
    _run("mount", "-o", "loop,errors=continue", str(image), str(path))


def unmount(path: Path) -> None:
    """Unmount the file system of ``mount_failing``, with its cached pages, also those that failed.

    Nothing may use it any more. Another test that has just made mounts of its own may still have this one, and lets go
    of it soon; mounted before that, the file system would be as it was.
    """
    with open("/proc/self/mounts", encoding="utf-8") as mounts:
        devices = [each.split()[0] for each in mounts if each.split()[1] == str(path)]
    (device,) = devices
    image = _image_of(device)
    _run("umount", str(path))
    deadline = time.monotonic() + PATIENCE
    while _image_of(device) == image:  # another image, once the device is free: that of a test beside this one
        if time.monotonic() > deadline:
            raise AssertionError(f"{device}, which was mounted at {path}, is still in use: mounted elsewhere?")
        time.sleep(POLL_SECONDS)


def _image_of(device: str) -> str | None:
    """Return the file that a loop device has; None while it is free."""
    try:
        return Path("/sys/block", Path(device).name, "loop", "backing_file").read_text(encoding="utf-8")
    except OSError:
        return None


def see_to(path: Path) -> None:
    """Let the kernel write the pages that failed before, and take the errors, so that no later sync reports them.

    The kernel chooses when it writes the pages of the file system itself: the error of one may come late.
    """
    folder = os.open(path, os.O_RDONLY)
    try:
        for _ in range(100):
            try:
                os.fsync(folder)
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
            else:
                return
    finally:
        os.close(folder)


def _run(*command: str) -> None:
    if os.geteuid() != 0:
        raise SkipTest("only root can mount")
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError as error:
        raise SkipTest(f"there is no {command[0]} here") from error
    except subprocess.CalledProcessError as error:
        raise SkipTest(f"{' '.join(command)}: {error.stderr.decode().strip()}") from error
