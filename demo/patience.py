"""The patience of the demonstration with a step of its own."""

#: Seconds that any one wait may take: generous, since Spark starts beside whatever else the machine does. Nothing waits
#: for it when all is well.
PATIENCE = 600.0
