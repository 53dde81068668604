"""The coordination tree as a pure state machine: no I/O, no clock; time comes in as an argument."""
