"""The homes of bytes: local files, S3 and Azure Blob."""
