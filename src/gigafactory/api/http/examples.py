"""Examples in the OpenAPI document."""

from typing import Any

JOB_ID = "01jqx5w0v8n6m2k4h9r7t3y1bd"
NOON = "2026-01-01T12:00:00.000Z"

FILE = """---
name: fix-login
repo: notes
priority: high
---
# Fix the login

The form forgets the name after a wrong password.
"""

MANIFEST = {
    "manifest": {"name": "fix-login", "repo": "notes", "priority": "high"},
    "body": "# Fix the login\n\nThe form forgets the name after a wrong password.\n",
}

JOB: dict[str, Any] = {
    "id": JOB_ID,
    "name": "fix-login",
    "productId": "notes",
    "title": "Fix the login",
    "kind": "leaf",
    "stage": "queued",
    "result": None,
    "reason": None,
    "priority": "high",
    "repo": "notes",
    "profile": None,
    "engine": None,
    "capabilities": [],
    "deps": [],
    "lock": None,
    "attempts": 0,
    "submittedBy": "user:ann",
    "rev": 1,
    "leaseEpoch": 0,
    "lease": None,
    "checkpoint": None,
    "parentId": None,
    "phase": None,
    "createdAt": NOON,
    "updatedAt": NOON,
    "stageSince": NOON,
    "notBefore": None,
    "flags": [],
}

GRANT = {
    "job": JOB
    | {
        "stage": "assigned",
        "rev": 2,
        "leaseEpoch": 1,
        "engine": "claude",
        "lease": {"factoryId": "mac-1", "expiresAt": "2026-01-01T12:01:30.000Z"},
    },
    "leaseEpoch": 1,
    "expiresAt": "2026-01-01T12:01:30.000Z",
    "runId": f"{JOB_ID}.1",
    "engine": "claude",
    "step": "run",
    "manifest": {"name": "fix-login", "repo": "notes", "priority": "high"},
    "bodyMd": "# Fix the login\n\nThe form forgets the name after a wrong password.\n",
    "followUps": [],
    "protectedPaths": [".github/**"],
    "workedSec": 0.0,
}

ARTIFACT = {
    "id": f"{JOB_ID}.01jqx5w7z3c8e2f6g1h4j9k5mn",
    "jobId": JOB_ID,
    "productId": "notes",
    "runId": f"{JOB_ID}.1",
    "name": "reports/coverage.html",
    "mediaType": "text/html",
    "size": 22,
    "sha256": "7dd0838d1ed4aed4d5616f315f1cc12380c4ed6424291077fe54c19a9276f2c7",
    "createdAt": NOON,
    "createdBy": "factory:mac-1",
}
