"""Profiles as JSON: encoding and decoding returns the same profile."""

from gigafactory.domain.manifest.encoder import profile_to_json
from gigafactory.domain.manifest.profile import parse_profile_file, parse_profile_json

FILE = """---
name: careful
capabilities: [python>=3.11]
stall: 20m
review-policy: {reviewers: ["@ann"], quorum: 1}
---
You change as little as you can.
"""


def test_profile_round_trips_through_readable_json() -> None:
    profile = parse_profile_file(FILE)
    written = profile_to_json(profile)
    assert written["stall"] == "20m"
    assert written["reviewPolicy"] == {"reviewers": ["ann"], "quorum": 1}
    del written["version"]
    assert parse_profile_json(written) == profile
