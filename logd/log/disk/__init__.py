"""Files and folders below the logs: operations, names, open files, replacement in one step."""
