"""README and docs: every block runs as it stands, and the site is built."""
