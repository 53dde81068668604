"""Building blocks for Deferreds, shared by every layer that uses Twisted.

- ``waiting``: callers that wait for one event, fired in order whatever each of them does;
- ``callbacks``: a Deferred for an operation that reports by a callback;
- ``sleeping``: a cancellable sleep, and sleeps that another caller may end;
- ``timeouts``: a limit to the wait for a Deferred, with and without cancelling it;
- ``gathering``: concurrent coroutines, all at once or a limited number at a time;
- ``locking``: a lock and a semaphore that thousands may wait for;
- ``background``: coroutines that an object runs beside its callers, whose bugs are logged.

A building block belongs here if it is about Deferreds and not about logd, and has three users.
"""
