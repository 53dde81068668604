"""The policy for damaged entries: fetch them again a few times, then do as the settings say."""

from __future__ import annotations

from enum import Enum

from attrs import define, field

from logd.client.settings import ConsumerSettings


class Remedy(Enum):
    """The treatments of a damaged entry."""

    FETCH_AGAIN = "fetch it again, since the damage may have been on the way"
    FAIL = "tell the application"
    SKIP = "go on behind it"
    DEAD_LETTER = "store its bytes as a dead letter, then go on behind it"


@define(eq=False)
class DamagePolicy:
    """The damage of one partition: counts the vain fetches of the entry at one position."""

    settings: ConsumerSettings
    _at: int = field(default=-1, init=False)
    _tries: int = field(default=0, init=False)

    def remedy(self, position: int) -> Remedy:
        """Return the treatment of the damage at ``position``, which was found once more."""
        if self._at != position:
            self._at, self._tries = position, 0
        if self._tries < self.settings.corrupt_retries:
            self._tries += 1
            return Remedy.FETCH_AGAIN
        if self.settings.on_corrupt == "fail":
            return Remedy.FAIL
        self.forget()
        return Remedy.SKIP if self.settings.on_corrupt == "skip" else Remedy.DEAD_LETTER

    def forget(self) -> None:
        """Start a new count for the next damage."""
        self._at = -1
