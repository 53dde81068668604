"""Has a running broker repair partitions of a topic: first as a dry run, then by making gaps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click
from attrs import define, field

from logd.cli.terminal.byte_progress import BytesProgress
from logd.cli.terminal.prompts import ask
from logd.client.admin.admin import Admin
from logd.errors import LogdError
from logd.plurals import counted
from logd.protocol.requests.repair import LOST_LOG, OFFLINE, SERVED, SERVED_AGAIN, RepairedDamage, RepairResponse

_UNVOUCHED = 4
_TAIL = 5


class DamageLeft(LogdError):
    """Some damage was not repaired."""


@define
class _Outcome:
    """All answers about one partition."""

    partition: int
    damages: int = 0
    damaged_bytes: int = 0
    #: Described damages that were not mended, apart from tails.
    left: int = 0
    described: list[RepairedDamage] = field(factory=list)
    state: int = SERVED

    def add(self, response: RepairResponse) -> None:
        """Add one answer of the broker."""
        self.damages += response.damages
        self.damaged_bytes += response.damaged_bytes
        self.described += response.described
        self.left += sum(1 for each in response.described if not each.mended and each.kind != _TAIL)
        self.state = response.state

    @property
    def is_lost(self) -> bool:
        """True when the log is lost and its loss has not been accepted."""
        return any(each.kind == LOST_LOG and not each.mended for each in self.described)

    @property
    def begins(self) -> int | None:
        """The position at which a lost log begins again after its loss was accepted; None for any other log."""
        ends = [each.position + each.bytes for each in self.described if each.kind == LOST_LOG and each.mended]
        return ends[0] if ends else None

    @property
    def is_sound(self) -> bool:
        """True when nothing is left to repair."""
        return not self.left and self.state != OFFLINE

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as a JSON object."""
        return {
            "partition": self.partition,
            "state": ("served", "offline", "served again")[self.state],
            "damages": self.damages,
            "damaged_bytes": self.damaged_bytes,
            "left": self.left,
            "described": [each._asdict() for each in self.described],
        }


async def repair_by_broker(
    reactor: Any,
    broker: str,
    topic: str,
    partitions: Sequence[int],
    *,
    yes: bool,
    force: bool,
    accept_loss: bool,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Repair ``partitions`` of a topic, all of them when none is named. Raises DamageLeft."""
    admin = Admin(broker, reactor=reactor)
    try:
        numbers = partitions or [each.partition for each in (await admin.describe(topic)).partitions]
        outcomes = [await _ask_broker(admin, topic, number, True, False, quiet) for number in numbers]
        if not as_json:
            for outcome in outcomes:
                _show(topic, outcome)
        if not dry_run:
            outcomes = [await _mend(admin, topic, each, yes, force, accept_loss, quiet) for each in outcomes]
    finally:
        await admin.close()
    wrong = [outcome for outcome in outcomes if not outcome.is_sound]
    if as_json:
        found = [outcome.to_json() for outcome in outcomes]
        click.echo(json.dumps({"topic": topic, "sound": not wrong, "dry_run": dry_run, "partitions": found}))
    else:
        for outcome in outcomes:
            if outcome.state == SERVED_AGAIN:
                begins = f", and begins at {outcome.begins}" if outcome.begins is not None else ""
                click.echo(f"{topic}-{outcome.partition} is served again{begins}")
        if not wrong:
            count = sum(outcome.damages for outcome in outcomes if outcome.begins is None)
            click.echo(f"sound, with {counted(count, 'damaged place')} mended" if count else "sound")
    if wrong:
        what = "nothing was changed" if dry_run else "the damage was left as it is"
        if any(outcome.is_lost for outcome in wrong):
            what += "; put lost files back, or give up what was in them with --accept-loss"
        listed = f"partition{'s' if len(wrong) > 1 else ''} {', '.join(str(each.partition) for each in wrong)}"
        raise DamageLeft(f"not sound: {listed}; {what}")


async def _mend(
    admin: Admin, topic: str, found: _Outcome, yes: bool, force: bool, accept_loss: bool, quiet: bool
) -> _Outcome:
    lost = next((each for each in found.described if each.kind == LOST_LOG), None)
    if lost is not None and yes and not accept_loss:
        return await _ask_broker(admin, topic, found.partition, False, False, quiet)  # the files may be back
    if lost is not None:
        question = f"Give up the lost messages of {topic}-{found.partition} and begin its log again?"
        if accept_loss or ask(question, "--accept-loss"):
            return await _ask_broker(admin, topic, found.partition, False, False, quiet, lost.position + lost.bytes)
        return found
    cut = False
    cuts = [each for each in found.described if each.kind == _UNVOUCHED]
    if cuts:
        size = sum(each.bytes for each in cuts)
        cut = force or ask(
            f"Cut {counted(size, 'byte')} without a known entry boundary, with any sound messages in them?", "--force"
        )
    questions = []
    if found.left > len(cuts):
        questions.append(f"make gaps of {found.left - len(cuts):,} damages in {topic}-{found.partition}")
    if found.state == OFFLINE:
        questions.append(f"serve {topic}-{found.partition} again")
    yes = bool(questions) and (yes or ask(f"{' and '.join(questions).capitalize()}?", "--yes"))
    return await _ask_broker(admin, topic, found.partition, False, cut, quiet) if yes else found


async def _ask_broker(
    admin: Admin,
    topic: str,
    partition: int,
    dry_run: bool,
    cut: bool,
    quiet: bool,
    accept_at: int | None = None,
) -> _Outcome:
    outcome = _Outcome(partition)
    with BytesProgress(f"{topic}-{partition}", 0, quiet) as progress:
        async for response in admin.repair_log(topic, partition, dry_run, cut, accept_at):
            outcome.add(response)
            progress.reach(response.checked_to, response.end)
    return outcome


def _show(topic: str, outcome: _Outcome) -> None:
    if outcome.state == OFFLINE:
        click.echo(f"{topic}-{outcome.partition} is offline")
    for each in outcome.described:
        place = (
            "" if each.kind == LOST_LOG else f"{topic}-{outcome.partition}: id {each.position}, {each.bytes} bytes: "
        )
        click.echo(place + each.text)
    hidden = outcome.damages - len(outcome.described)
    if hidden:
        click.echo(f"{topic}-{outcome.partition}: {hidden:,} more damages")
