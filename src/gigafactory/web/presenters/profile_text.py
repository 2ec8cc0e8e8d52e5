"""Format a profile as a profile file; parsing the file returns the profile."""

import re

import yaml

from gigafactory.domain.manifest.encoder import profile_to_json
from gigafactory.domain.manifest.profile import Profile

_CAPITAL = re.compile("[A-Z]")
OMITTED = frozenset({"version", "productId", "persona"})
"""Fields without a setting in the file: saving assigns versions, and the persona is the body."""


def format_profile_file(profile: Profile) -> str:
    """Return the profile file of a profile."""
    settings = {
        _kebab(key): value for key, value in profile_to_json(profile).items() if key not in OMITTED
    }
    head = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True, width=1000)
    return f"---\n{head}---\n{profile.persona}\n"


def _kebab(key: str) -> str:
    # Custom settings (x-…) keep their names.
    return key if key.startswith("x-") else _CAPITAL.sub(lambda c: f"-{c[0].lower()}", key)
