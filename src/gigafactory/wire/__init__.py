"""The records of the HTTP API, shared by server and clients."""
