"""What idempotent producers have sent to a partition: its states, and their snapshots."""
