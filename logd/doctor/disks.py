"""The file system of a data directory: its kind, its options, and its room against what retention keeps."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from attrs import frozen

from logd.config import BrokerSettings
from logd.doctor.observation import Level, Observation
from logd.log.disk.names import folder_partition, segment_start

AREA = "disks"
#: Kinds that forget everything with the machine's power, or with the container.
_FORGETFUL = {"tmpfs", "ramfs", "devtmpfs"}
#: Kinds on other machines, where a sync and a lock are only as good as the server and the mount options.
_REMOTE = {"nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "glusterfs"}
#: Shares of the space and the inodes below which room is short.
_LITTLE, _VERY_LITTLE = 0.15, 0.05
_DAY = 86_400.0


@frozen
class Mount:
    """A line of /proc/mounts."""

    device: str
    point: str
    kind: str
    options: tuple[str, ...]


@frozen
class StoredLogs:
    """The segments of a data directory: their partitions, bytes, and the seconds since the oldest was last written."""

    partitions: int
    bytes: int
    age: float


@frozen
class Room:
    """The space of a file system in bytes, and its inodes (0 where the kind has none)."""

    free: int
    total: int
    free_inodes: int = 0
    inodes: int = 0


def mount_of(path: str, mounts: str) -> Mount | None:
    """Return the file system of an absolute path without links, by the text of /proc/mounts."""
    found = None
    for line in mounts.splitlines():
        words = [word.replace("\\040", " ") for word in line.split()]
        if len(words) < 4:
            continue
        point = words[1].rstrip("/")
        # Of two mounts at one point the later one covers the other.
        if (path == point or path.startswith(f"{point}/")) and (found is None or len(point) >= len(found.point)):
            found = Mount(words[0], point, words[2], tuple(words[3].split(",")))
    return found


def read_mounts(proc: Path = Path("/proc")) -> str:
    """Return /proc/mounts; empty where there is none."""
    try:
        return (proc / "mounts").read_text(errors="replace")
    except OSError:
        return ""


def measure_logs(data: str, now: float | None = None) -> StoredLogs:
    """Look at all segments below a data directory; what vanishes meanwhile is left out. Raises OSError."""
    now = time.time() if now is None else now
    partitions, size, oldest = 0, 0, now
    with os.scandir(data) as folders:
        for folder in folders:
            if folder_partition(folder.name) is None or not folder.is_dir(follow_symlinks=False):
                continue
            partitions += 1
            try:
                with os.scandir(folder.path) as files:
                    for file in files:
                        if segment_start(file.name) is not None:
                            stat = file.stat()
                            size += stat.st_blocks * 512
                            oldest = min(oldest, stat.st_mtime) if stat.st_size else oldest
            except OSError:
                continue
    return StoredLogs(partitions, size, max(now - oldest, 0.0))


def measure_room(data: str) -> Room:
    """Return the room of the file system. Raises OSError."""
    found = os.statvfs(data)
    return Room(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize, found.f_favail, found.f_files)


def examine_mount(data: str, mount: Mount | None) -> Iterator[Observation]:
    """Judge the kind and the options of a file system."""
    if mount is None:
        yield Observation(AREA, Level.NOTE, data, "its file system is not known here")
        return
    place = f"{mount.kind} at {mount.point or '/'}"
    if mount.kind in _FORGETFUL:
        yield Observation(
            AREA,
            Level.PROBLEM,
            data,
            f"is on {place}, which is memory: a restart of the machine loses every message",
            "move the data directory to a disk (stop the broker, copy it whole, change --data)",
        )
    elif mount.kind in _REMOTE or mount.kind.startswith("fuse"):
        yield Observation(
            AREA,
            Level.WARNING,
            data,
            f"is on {place}: acknowledged messages are as safe as that server's syncs, and its locks keep a second "
            "broker away only if they reach the server",
            "use a local disk; else mount with hard, sync on the server, and without nolock",
        )
    elif mount.kind == "overlay":
        yield Observation(
            AREA,
            Level.PROBLEM,
            data,
            f"is on {place}, the layer of a container: it goes with the container",
            "mount a volume there",
        )
    else:
        yield Observation(AREA, Level.OK, data, f"is on {place}")
    yield from _examine_options(data, mount)


def examine_writing(data: str, folder: str, may_write: bool) -> Iterator[Observation]:
    """Tell if a broker could not write: ``folder`` is the data directory, or the first one above it that exists."""
    if not os.path.isdir(folder):
        yield Observation(AREA, Level.PROBLEM, data, f"{folder} is no directory", "correct --data")
    elif not may_write:
        yield Observation(
            AREA,
            Level.PROBLEM,
            data,
            f"user {os.geteuid()} may not write to {folder}: a broker of that user cannot start",
            f"run doctor as the broker's user; else `chown` {folder} to that user, or make {data} for it",
        )


def _examine_options(data: str, mount: Mount) -> Iterator[Observation]:
    options = set(mount.options)
    if "ro" in options:
        yield Observation(
            AREA,
            Level.PROBLEM,
            data,
            f"{mount.point or '/'} is mounted read-only",
            "look for errors of the disk in `dmesg`; then mount it again with -o remount,rw",
        )
    unsafe = sorted(options & {"nobarrier", "barrier=0"})
    if unsafe:
        yield Observation(
            AREA,
            Level.PROBLEM,
            data,
            f"{mount.point or '/'} is mounted with {', '.join(unsafe)}: a sync does not reach the disk's medium, and "
            "messages acknowledged with acks=-1 may be lost with the power",
            "remove the option in /etc/fstab, unless the disk's own memory survives the loss of power",
        )
    if "sync" in options or "dirsync" in options:
        yield Observation(
            AREA,
            Level.WARNING,
            data,
            f"{mount.point or '/'} is mounted with sync or dirsync: every write waits for the disk",
            "remove the option: the broker syncs what has to be safe",
        )


def examine_room(data: str, room: Room, logs: StoredLogs, settings: BrokerSettings | None) -> Iterator[Observation]:
    """Compare the room with what is stored, and with what retention will let the logs grow to."""
    share = room.free / room.total if room.total else 1.0
    shown = f"{shown_size(room.free)} of {shown_size(room.total)} are free, {shown_size(logs.bytes)} are logs"
    remedy = "make room: lower retention.ms or retention.bytes of topics, delete topics, or give the disk more space"
    if share < _LITTLE:
        level = Level.PROBLEM if share < _VERY_LITTLE else Level.WARNING
        yield Observation(AREA, level, data, f"{shown}: a full disk refuses messages", remedy)
    else:
        yield Observation(AREA, Level.OK, data, shown)
    if room.inodes and room.free_inodes < room.inodes * _VERY_LITTLE:
        yield Observation(
            AREA,
            Level.WARNING,
            data,
            f"{room.free_inodes:,} of {room.inodes:,} inodes are free; each segment takes two",
            "raise segment.bytes, or make the file system anew with more inodes",
        )
    if settings is not None:
        yield from _examine_growth(data, room, logs, settings)


def _examine_growth(data: str, room: Room, logs: StoredLogs, settings: BrokerSettings) -> Iterator[Observation]:
    log = settings.log_settings({})
    kept = log.retention_ms / 1000 if log.retention_ms != -1 else None
    capacity = room.free + logs.bytes
    if log.retention_bytes != -1 and logs.partitions and log.retention_bytes * logs.partitions > capacity:
        yield Observation(
            AREA,
            Level.WARNING,
            data,
            f"retention.bytes = {log.retention_bytes:,} lets {logs.partitions:,} partitions grow to "
            f"{shown_size(log.retention_bytes * logs.partitions)}, and there is room for {shown_size(capacity)}",
            f"lower retention.bytes to {capacity // logs.partitions * 8 // 10:,} or less",
        )
    elif kept is None and log.retention_bytes == -1:
        yield Observation(
            AREA,
            Level.WARNING,
            data,
            "nothing limits the logs: retention.ms and retention.bytes are both -1",
            "set one of them, for the broker or for each topic",
        )
    elif kept is not None and log.retention_bytes == -1 and logs.bytes and logs.age > _DAY / 24:
        expected = int(logs.bytes * max(kept / logs.age, 1.0))
        if expected > capacity:
            yield Observation(
                AREA,
                Level.WARNING,
                data,
                f"at the rate of the last {logs.age / _DAY:.1f} days, retention.ms = {log.retention_ms:,} keeps "
                f"{shown_size(expected)}, and there is room for {shown_size(capacity)}",
                f"lower retention.ms to {int(capacity * 0.8 / logs.bytes * logs.age * 1000):,}, or add space",
            )


def shown_size(count: int) -> str:
    """Return bytes for people to read, such as ``1.5 GiB``."""
    number = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:,.1f} TiB"
