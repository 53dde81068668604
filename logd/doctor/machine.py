"""Examines this machine for one broker's settings, or for any broker. Blocks."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from logd.config import BrokerSettings
from logd.doctor.clock import examine_clock, in_step, latest_write
from logd.doctor.disks import (
    StoredLogs,
    examine_mount,
    examine_room,
    examine_writing,
    measure_logs,
    measure_room,
    mount_of,
    read_mounts,
)
from logd.doctor.exposure import examine_files, examine_listeners, secret_files
from logd.doctor.limits import examine_limits, examine_memory, read_meminfo
from logd.doctor.observation import Level, Observation
from logd.doctor.ports import endpoints_of, examine_advertised, examine_ports
from logd.doctor.processes import limits_of, lock_holder, own_limits
from logd.doctor.versions import examine_versions, installed_version, requirements_of_logd


def examine_machine(settings: BrokerSettings | None, config: str | None) -> Iterator[Observation]:
    """Yield what there is to say without a connection to anything. ``config``: the settings file, None without one."""
    logs, last = StoredLogs(0, 0, 0.0), None
    running = None
    is_readable = True
    if settings is not None:
        data = os.path.realpath(settings.data)
        running = lock_holder(data)
        try:
            logs, last = measure_logs(data), latest_write(data)
        except FileNotFoundError:
            yield Observation("disks", Level.NOTE, data, "does not exist yet; the first start makes it")
        except OSError as error:
            is_readable = False
            yield Observation(
                "disks", Level.PROBLEM, data, f"cannot be read: {error}", "run doctor as the broker's user, or as root"
            )
    limits = limits_of(running) if running is not None else None
    subject = f"broker, process {running}" if limits is not None else "a broker started from here"
    yield from examine_limits(limits or own_limits(), subject, settings, logs.partitions)
    if settings is not None:
        if running is None:
            yield from examine_memory(settings, read_meminfo())
        folder = _existing(os.path.realpath(settings.data))
        if is_readable and running is None:
            yield from examine_writing(settings.data, folder, os.access(folder, os.W_OK | os.X_OK))
        yield from examine_mount(settings.data, mount_of(folder, read_mounts()))
        try:
            yield from examine_room(settings.data, measure_room(folder), logs, settings)
        except OSError as error:
            yield Observation("disks", Level.NOTE, folder, f"its room cannot be measured: {error}")
    yield from examine_clock(in_step(), last, time.time())
    if settings is not None:
        endpoints = endpoints_of(settings)
        yield from examine_ports(endpoints, running is not None)
        yield from examine_advertised(settings)
        yield from examine_listeners(settings, endpoints)
        yield from examine_files(secret_files(settings, config), settings.data)
    yield from examine_versions(requirements_of_logd(), installed_version)


def _existing(path: str) -> str:
    while not os.path.exists(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    return path
