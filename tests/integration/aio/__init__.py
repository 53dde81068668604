"""logd.aio against real brokers: event loops of asyncio and of uvloop, and a web application under uvicorn."""
