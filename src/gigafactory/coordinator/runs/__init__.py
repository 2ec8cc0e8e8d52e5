"""What all writes of a running job share: fencing and budget booking."""
