"""Collects lines from growing files: identifies the files, reads them, and records what is acknowledged.

``follower`` is the state machine: given files (``files.Files``) and a clock it finds, identifies and reads them,
without threads and Twisted. ``ledger`` and ``state_file`` record what is acknowledged. ``collector`` runs them with a
producer on a reactor.
"""
