"""The clients of each system: modules with ``produce`` and ``consume``, each run in a process of its own."""
