"""Two runs compared: what differs, how surely."""
