"""Limits of the HTTP API that its records and the coordinator share."""

from datetime import timedelta

BATCH_MAX = 1000
"""Jobs in one submission."""
PAGE_MAX = 500
"""Records of one page of a list."""
GRANTS_MAX = 100
"""Grants of one claim."""
CLAIM_WAIT_MAX_S = 30.0
"""Seconds that a claim may wait for a job."""
REPORTS_MAX = 500
"""Reports in one request."""
LOG_BYTES_MAX = 1 << 30
"""Bytes of the log of one run."""
INVITATION_LASTS = timedelta(hours=1)
"""Default lifetime of an enrollment secret."""
