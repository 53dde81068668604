"""The programs: ``python -m drivers.NAME``, in any environment that has the client; nothing of logd is imported."""
