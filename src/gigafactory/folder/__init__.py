"""The folder queue: a plain folder as the board, with no service and no network."""
