"""A profile as the file that people write: reading it gives the profile back."""

import re

import yaml

from gigafactory.domain.manifest.encoder import profile_to_json
from gigafactory.domain.manifest.profile import Profile

OURS = frozenset({"version", "productId", "persona"})
"""What is no setting of a file: saving counts the versions, and the persona is the body."""


def profile_text(profile: Profile) -> str:
    """Give the profile file of a profile."""
    settings = {
        _kebab(key): value for key, value in profile_to_json(profile).items() if key not in OURS
    }
    head = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True, width=1000)
    return f"---\n{head}---\n{profile.persona}\n"


def _kebab(key: str) -> str:
    # The names of people's own settings are theirs, and stay as they are.
    return key if key.startswith("x-") else re.sub("[A-Z]", lambda c: f"-{c[0].lower()}", key)
