"""The folder queue: a plain folder as the queue, without any service or network."""
