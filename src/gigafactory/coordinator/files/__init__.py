"""Files of jobs: artifacts, diffs, logs and archives, and the garbage collection of blobs."""
