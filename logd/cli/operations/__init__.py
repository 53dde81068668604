"""Commands for people who run brokers: doctor, backup, restore."""
