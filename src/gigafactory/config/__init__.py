"""Settings: definitions, loading, environment variables, and the data folder."""
