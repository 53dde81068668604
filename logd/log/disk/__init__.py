"""Files and folders below the logs: operations, names, open files, atomic replacement."""
