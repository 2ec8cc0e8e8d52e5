"""Where people keep their tickets: the adapters of the port `Tracker`."""
