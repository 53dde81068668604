"""Which errors of the operating system mean that there is no room, so that it may go on when some was made."""

from __future__ import annotations

import errno

#: A full disk, a quota, and a file that may not become larger.
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
