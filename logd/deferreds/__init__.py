"""The words for waiting: what every layer that uses Twisted would otherwise write again.

- ``waiting``: callers that wait for one event, fired in order whatever each of them does;
- ``callbacks``: a Deferred for what is told by calling back;
- ``sleeping``: a cancellable sleep, and sleeps that another caller may end;
- ``timeouts``: an end to waiting for a Deferred, with and without cancelling it;
- ``gathering``: coroutines side by side, all at once or so many at a time;
- ``background``: coroutines that an object runs beside its callers, whose bugs are logged.

A word belongs here when it says something about Deferreds and nothing about logd, and has three users.
"""
