"""The core of every client, without I/O: the Twisted clients (logd/client) and Spark's blocking one (spark/) share it.

- ``addresses``, ``endpoints``: the text of brokers' addresses;
- ``metadata``: the view of a cluster as last read, and the leader of a partition;
- ``answers``: checks that an answer matches its request, and that an error is final;
- ``start_resolution``: the position that an end of the log, or a time, means in a log;
- ``retry_budget``: delays and limits of retries;
- ``authentication``: the exchange by which a connection becomes that of a user;
- ``message_format``: what topics for clients of Kafka 0.7 take;
- ``defaults``: durations and sizes that all clients begin with;
- ``partition_numbers``: numbers of partitions in errors.
"""
