"""The tenancy room."""
