"""Collecting lines from growing files: which file is which, how far each was read, what is acknowledged.

``follower`` is the state machine: given files (``files.Files``) and a clock it finds, tells apart and reads, without
threads and Twisted. ``ledger`` and ``statefile`` remember what was acknowledged. ``collector`` puts them and a producer
on a reactor.
"""
