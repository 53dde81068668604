"""The log of administration: who has changed what, from where, when, and with which result.

Handlers call ``broker.administration_log.record(requester, "create topic", "t", partitions=4)`` once something is done,
with ``error=`` once it was refused or has failed, and ``login_failed`` for a client that could not prove to be a user.
Each record is one log line of the namespace ``logd.administration`` with the record's fields, and one message of the
topic that the setting ``security.administration.topic`` names. What is done is always recorded; refusals of one address
are bounded, and those left out are counted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, Protocol

from attrs import asdict, define, field, frozen
from twisted.logger import Logger

from logd.broker.security.requester import Requester
from logd.errors import LogdError
from logd.interfaces import Clock, Timer
from logd.net.limits.token_bucket import TokenBucket
from logd.plurals import counted

#: Refusals of one address that are recorded at once, and then in a second.
REFUSALS_AT_ONCE = 20
REFUSALS_A_SECOND = 2
#: Addresses whose refusals are counted each by itself.
MOST_ADDRESSES = 1000
#: Characters of a name, of details or of a reason in a log line.
MOST_CHARACTERS = 1000
#: Seconds after which the refusals that were left out are told.
TOLD_AFTER = 10.0

#: Of the module: an attribute of a class would have the namespace of the class.
_log = Logger(namespace="logd.administration")

DONE: Final = "done"
REFUSED: Final = "refused"
FAILED: Final = "failed"
#: In the place of the requester: what this broker sees in the tree, where somebody else has changed it.
TREE = Requester("the coordination tree", authenticated=True)


@frozen
class AdministrationRecord:
    """One record."""

    #: Milliseconds since the epoch.
    time: int
    principal: str
    #: The client's host; empty for what was seen in the coordination tree.
    address: str
    mechanism: str
    #: The action that was done or asked for, such as ``create topic``, and the name of its object.
    action: str
    name: str
    #: ``done``, ``refused`` or ``failed``.
    result: str
    reason: str = ""
    details: dict[str, Any] = field(factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the content of the record's message."""
        return asdict(self)


class RecordTopic(Protocol):
    """The topic to which records are written as messages."""

    def publish(self, record: AdministrationRecord) -> None:
        """Write a record, now or later."""
        ...

    def stop(self) -> None:
        """Try no more."""
        ...


@define(eq=False)
class AdministrationLog:
    """The log of one broker."""

    _clock: Clock
    #: Returns the time of day in seconds.
    _wall: Callable[[], float]
    #: The topic of the records, if there is one.
    topic: RecordTopic | None = field(default=None, init=False)
    #: By address: refusals that may be recorded.
    _budgets: OrderedDict[str, TokenBucket] = field(factory=OrderedDict, init=False)
    #: By address: refusals that were left out since that was told last.
    _left_out: dict[str, int] = field(factory=dict, init=False)
    _timer: Timer | None = field(default=None, init=False)
    _stopped: bool = field(default=False, init=False)

    def record(
        self, requester: Requester, action: str, name: str = "", *, error: BaseException | None = None, **details: Any
    ) -> None:
        """Record what a client has done, or with ``error`` why it was refused. ``details`` go into JSON as they are."""
        if error is not None and not self._may_record(requester.address):
            return
        result = DONE if error is None else REFUSED if isinstance(error, LogdError) else FAILED
        self._write(requester, action, name, result, "" if error is None else str(error), details)

    def refused(self, requester: Requester, action: str, name: str, reason: str) -> None:
        """Record a refusal by its reason."""
        if self._may_record(requester.address):
            self._write(requester, action, name, REFUSED, reason, {})

    def login_failed(self, requester: Requester, user: str, mechanism: str) -> None:
        """Record a client that could not prove to be ``user``."""
        if self._may_record(requester.address):
            reason = "there is no such user, or the proof is not the user's"
            self._write(requester, "log in as", user, REFUSED, reason, {"mechanism": mechanism})

    def stop(self) -> None:
        """Tell what was left out, and cancel the timer."""
        self._stopped = True
        self._tell_left_out()
        if self.topic is not None:
            self.topic.stop()

    def _write(
        self, requester: Requester, action: str, name: str, result: str, reason: str, details: dict[str, Any]
    ) -> None:
        now = int(self._wall() * 1000)
        who = requester.principal, requester.address, requester.mechanism
        record = AdministrationRecord(now, *who, action, name, result, reason, details)
        more = ", ".join(f"{key} = {value}" for key, value in details.items() if value not in ({}, []))
        # Names and reasons may come from the client: in quotes, with control characters escaped.
        (_log.info if result == DONE else _log.warn)(
            "{who}: {action}{quoted}{more}: {result}{because}",
            who=str(requester),
            quoted=f" '{_printable(name)}'" if name else "",
            more=f" ({_printable(more)})" if more else "",
            because=f": {_printable(reason)}" if reason else "",
            # Not the time: the event has its own, in another unit under the same name.
            **{key: value for key, value in asdict(record, recurse=False).items() if key != "time"},
        )
        if self.topic is not None:
            self.topic.publish(record)

    def _may_record(self, address: str) -> bool:
        """Return whether another refusal of an address is recorded; else it is counted."""
        budget = self._budgets.get(address)
        if budget is None:
            while len(self._budgets) >= MOST_ADDRESSES:
                self._budgets.popitem(last=False)
            budget = TokenBucket(self._clock, REFUSALS_A_SECOND, REFUSALS_AT_ONCE / REFUSALS_A_SECOND)
            self._budgets[address] = budget
        self._budgets.move_to_end(address)
        if not budget.debt_seconds(1):
            budget.take(1)
            return True
        if address not in self._left_out and len(self._left_out) >= MOST_ADDRESSES:
            address = "other addresses"
        self._left_out[address] = self._left_out.get(address, 0) + 1
        if self._timer is None and not self._stopped:
            self._timer = self._clock.callLater(TOLD_AFTER, self._tell_left_out)
        return False

    def _tell_left_out(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()
        left_out, self._left_out = self._left_out, {}
        if left_out:
            worst = sorted(left_out, key=lambda address: -left_out[address])[:5]
            _log.warn(
                "{total} of requests and logins, too many to be recorded one by one: {worst}{others}",
                total=counted(sum(left_out.values()), "more refusal"),
                worst=", ".join(f"{left_out[address]} from {address or '?'}" for address in worst),
                others=f" and {counted(len(left_out) - 5, 'other address')}" if len(left_out) > 5 else "",
                left_out=sum(left_out.values()),
            )


def _printable(text: str) -> str:
    shown = text if text.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
    return shown if len(shown) <= MOST_CHARACTERS else f"{shown[:MOST_CHARACTERS]}..."
