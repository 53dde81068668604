"""Producer, Consumer and Admin for programs on asyncio: a service, a web application, a script of ``asyncio.run``.

No reactor is installed, and none is imported. The clients are those of ``logd.client``, on the running event loop
(asyncio's own or uvloop).
"""

from logd.aio.admin import Admin
from logd.aio.consumer import Consumer
from logd.aio.group_stream import AsyncioGroupStream
from logd.aio.producer import Producer
from logd.aio.stream import AsyncioStream

__all__ = ["Admin", "AsyncioGroupStream", "AsyncioStream", "Consumer", "Producer"]
