"""What this machine offers: engines, tools, credentials, and its health."""
