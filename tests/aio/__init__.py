"""Tests of logd.aio: the clients on an event loop of asyncio, with a broker in memory."""
