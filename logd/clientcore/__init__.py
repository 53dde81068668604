"""The core of every client, without I/O: the Twisted clients (logd/client) and Spark's blocking one (spark/) share it.

- ``addresses``, ``endpoints``: the text that says where the brokers are;
- ``metadata``: the view of a cluster that was last read, and the leader of a partition;
- ``answers``: whether an answer is one to its question, and whether an error is final;
- ``starting_positions``: the position that an end of the log, or a time, means in a log;
- ``retries``: how long something that fails is tried again;
- ``defaults``: the durations and sizes that all clients begin with;
- ``partition_numbers``: numbers of partitions in errors.
"""
