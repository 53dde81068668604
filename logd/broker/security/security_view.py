"""Keeps the authorizer up to date with the users and the access rules of the coordination tree."""

from __future__ import annotations

from attrs import define, field
from twisted.internet.defer import Deferred, DeferredList

from logd.broker.security.authorizer import Authorizer
from logd.coord import paths
from logd.coord.interfaces import ICoordination
from logd.coord.registries.access_rules import watch_rules
from logd.coord.registries.child_cache import ChildCache
from logd.interfaces import Clock, Timer
from logd.security.access_rules import AccessRule, AccessRules


@define(eq=False)
class SecurityView:
    """The users and rules as this broker last saw them. Changes that come together are taken together."""

    _tree: ICoordination
    _clock: Clock
    _authorizer: Authorizer
    _rules: ChildCache[AccessRule] = field(init=False)
    _users: ChildCache[str] = field(init=False)
    _timer: Timer | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._rules = watch_rules(self._tree, self._clock, self._changed)
        self._users = ChildCache(self._tree, self._clock, paths.USERS, lambda name, _: name, self._changed)

    def start(self) -> None:
        """Begin to read; the session may come later."""
        self._rules.start()
        self._users.start()
        self.when_known().addCallback(lambda _: self._take())

    def when_known(self) -> Deferred[None]:
        """Return a Deferred that fires when users and rules have been read once. Never fails."""
        both = DeferredList([self._rules.when_complete(), self._users.when_complete()])
        return both.addCallback(lambda _: None)

    def stop(self) -> None:
        """Stop reading; what was read stays in force."""
        self._rules.stop()
        self._users.stop()
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()

    def _changed(self, _name: str) -> None:
        if self._timer is None:
            self._timer = self._clock.callLater(0, self._take)

    def _take(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()
        if self._rules.complete and self._users.complete:
            self._authorizer.take(AccessRules(self._rules.values.values()), bool(self._users.values))
