"""Adapters of the `Blobs` port: local files, S3 and Azure Blob."""
