"""Users and what they may do, without I/O: principals, access rules, and the identity of brokers."""
