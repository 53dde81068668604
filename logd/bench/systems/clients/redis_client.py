"""redis-py (with hiredis where it is installed), which has no batches of its own: the application makes pipelines."""

from __future__ import annotations

from itertools import islice

from logd.bench.systems.client_main import run_client
from logd.bench.systems.load import Load, Stopwatch

#: Entries asked for in one XREAD.
READ = 1000


def produce(address: str, load: Load, option: str, watch: Stopwatch) -> None:
    """See client_main: XADD for each message; with a batch, so many XADD in a pipeline."""
    from redis import Redis

    host, port = address.split(":")
    with Redis(host, int(port)) as redis:
        redis.ping()
        watch.start()
        if load.batch > 1:
            payloads = load.payloads()
            while some := list(islice(payloads, load.batch)):
                with redis.pipeline(transaction=False) as pipeline:
                    for payload in some:
                        pipeline.xadd(load.topic, {"m": payload})
                    pipeline.execute()
        else:
            add, topic = redis.xadd, load.topic
            for payload in load.payloads():
                add(topic, {"m": payload})
        watch.stop(load.messages)


def consume(address: str, load: Load, option: str, watch: Stopwatch) -> None:
    """See client_main: XREAD of up to READ messages."""
    from redis import Redis

    host, port = address.split(":")
    with Redis(host, int(port)) as redis:
        redis.ping()
        watch.start()
        count, last = 0, b"0"
        while count < load.messages:
            answer = redis.xread({load.topic: last}, count=READ, block=1000)
            # With RESP3, the default of later versions, a mapping of lists; before, a list of pairs.
            found = answer.items() if isinstance(answer, dict) else answer
            for _, entries in found:
                pages = entries if isinstance(answer, list) else [each for page in entries for each in page]
                count += len(pages)
                last = pages[-1][0]
                if load.rate:
                    for _, fields in pages:
                        watch.note(fields[b"m"])
        watch.stop(count)


if __name__ == "__main__":
    run_client(produce, consume)
