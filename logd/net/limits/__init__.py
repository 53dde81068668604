"""What peers may cost a server: connections, memory, time."""
