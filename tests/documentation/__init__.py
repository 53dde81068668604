"""The pages for users, run as they stand: every fenced block, in order, in a system where nothing else happens."""
