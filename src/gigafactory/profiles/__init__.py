"""The built-in profiles, one markdown file each."""

from functools import cache
from importlib.resources import files

from gigafactory.domain.manifest.profile import Profile, parse_profile_file


@cache
def shipped() -> dict[str, Profile]:
    """Return the built-in profiles by name."""
    texts = (
        entry.read_bytes()
        for entry in files(__name__).iterdir()
        if entry.name.endswith(".md") and entry.name != "README.md"
    )
    profiles = sorted((parse_profile_file(text) for text in texts), key=lambda each: each.name)
    return {profile.name: profile for profile in profiles}
