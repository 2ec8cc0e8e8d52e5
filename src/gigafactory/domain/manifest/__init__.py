"""Job files, manifests and profiles: parsing, validation, resolution and encoding."""
