"""The ports of a broker, and the addresses by which clients reach them."""
