"""Message sets on their way from one log to another: whole, counted, divided where they have to be, and in order."""
