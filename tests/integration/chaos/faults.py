"""Faults of a world, chosen by a seed: each is begun, lasts a while, and is healed."""

from __future__ import annotations

import re
import resource
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

from attrs import frozen

from tests.integration.chaos.producer import TOPIC
from tests.integration.chaos.world import Part, Target, World

#: Longest time of a fault, in seconds: beyond the timeout of a session.
LONGEST = 6.0
#: Faults at a time.
AT_ONCE = 2
#: Longest time for which the leaders that are killed together are away.
STRIKE_SECONDS = 3.0
#: A broker whose disk is full has files of so many bytes at most.
FULL_BYTES = 16_384


@frozen
class Fault:
    """A fault that lasts until it is healed."""

    name: str
    target: Target
    heal: Callable[[], object]


def kill(target: Target) -> Callable[[], object]:
    """End the target at once; return the call that heals it."""
    target.part.kill()
    return target.part.start


def stop(target: Target) -> Callable[[], object]:
    """Stop the target in order, which its status must confirm; return the call that heals it."""
    status = target.part.stop()
    if status != 0:
        raise AssertionError(f"{target.name} stopped with status {status}")
    return target.part.start


def pause(target: Target) -> Callable[[], object]:
    """Stop the target's process by SIGSTOP, perhaps for longer than its session; return the call that heals it."""
    process = target.part.process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    return lambda: process.send_signal(signal.SIGCONT)


def cut(target: Target) -> Callable[[], object]:
    """Let nothing reach the target, and no answer leave it, though it runs; return the call that heals it."""
    assert target.network is not None
    target.network.cut()
    return target.network.heal


def replace(target: Target) -> Callable[[], object]:
    """End the target and give it a new empty disk; return the call that heals it."""
    assert target.disk is not None
    target.part.kill()
    shutil.rmtree(target.disk)
    return target.part.start


def fill(target: Target) -> Callable[[], object]:
    """Let no file of a broker grow beyond some KB, as if its disk were full; return the call that heals it."""
    process = target.part.process
    assert process is not None
    limits = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (FULL_BYTES, limits[1]))

    def heal() -> None:
        with suppress(ProcessLookupError):
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, limits)

    return heal


def strike(world: World) -> Callable[[], object]:
    """Kill the tree's leader, the controller, and the leader of partition 0 together; return the call that heals it."""
    parts: list[Part] = [world.tree_targets[0].part]
    leading = max(range(len(world.brokers)), key=lambda number: _leads_since(world.brokers[number].log))
    parts += [world.brokers[number] for number in {leading, world.controller()}]
    for part in parts:
        part.kill()
    return lambda: [part.start() for part in parts]


def _leads_since(log: str) -> int:
    """Return the epoch in which a broker led partition 0 of the topic last, by its log; -1 if it never did."""
    text = Path(log).read_text(encoding="utf-8", errors="replace")
    return max(map(int, re.findall(rf"{TOPIC}-0 leads in epoch (\d+)", text)), default=-1)


def faults_of(target: Target) -> list[Callable[[Target], Callable[[], object]]]:
    """Return what may happen to the target at any time: not the loss of its disk, which only one may lose at a time."""
    return [kill, stop, pause, *([cut] if target.network is not None else []), *([fill] if target.disk else [])]


def torment(world: World, random: Random, seconds: float, say: Callable[[str], None]) -> list[str]:
    """Begin and heal faults of ``world`` for some seconds, one or two at a time; return their names. Blocks.

    With replicas the disk of one broker is replaced, and towards the end leaders of all kinds are killed together.
    """
    begin = time.monotonic()
    done: list[str] = []
    wrong: dict[Fault, float] = {}
    replaced = struck = False

    def now() -> float:
        return time.monotonic() - begin

    def heal(fault: Fault) -> None:
        say(f"{now():6.2f} heal: {fault.name}")
        del wrong[fault]
        fault.heal()

    while now() < seconds:
        for fault in [fault for fault, end in wrong.items() if end <= now()]:
            heal(fault)
        if world.replicas > 1 and not struck and now() > seconds * 2 / 3:
            for fault in tuple(wrong):
                heal(fault)
            say(f"{now():6.2f} kill the tree's leader, the controller and a leader")
            together = strike(world)
            done.append("strike")
            time.sleep(random.uniform(0.2, STRIKE_SECONDS))
            say(f"{now():6.2f} start them again")
            together()
            struck = True
        if len(wrong) < AT_ONCE and random.random() < 0.3:
            busy = {fault.target for fault in wrong}
            target = random.choice([each for each in world.targets() if each not in busy])
            what = random.choice(faults_of(target))
            if target.disk is not None and not replaced and now() > seconds / 3:
                what, replaced = replace, True
            name = f"{what.__name__} {target.name}"
            say(f"{now():6.2f} {name}")
            fault = Fault(name, target, what(target))
            done.append(name)
            wrong[fault] = now() + random.uniform(0.2, LONGEST)
        time.sleep(0.1)
    for fault in tuple(wrong):
        heal(fault)
    return done
