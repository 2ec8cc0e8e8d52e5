"""What is known of a job before anybody has tried it: its role, its size, its language."""

from functools import lru_cache

import msgspec

SMALL_WORDS = 50
LARGE_WORDS = 200
"""Instructions of fewer words are small, of as many are large, and all others middling."""

_LANGUAGES = {
    "cargo": "rust",
    "dotnet": "csharp",
    "go": "go",
    "gradle": "java",
    "java": "java",
    "maven": "java",
    "node": "javascript",
    "npm": "javascript",
    "php": "php",
    "pnpm": "javascript",
    "python": "python",
    "ruby": "ruby",
    "rust": "rust",
    "swift": "swift",
    "uv": "python",
    "xcode": "swift",
}


class JobFeatures(msgspec.Struct, frozen=True):
    """What is known of a job beside what it asks for; the same object for those that are alike."""

    profile: str | None
    size: str | None
    model: str | None


@lru_cache(maxsize=4096)
def features_of(profile: str | None, words: int | None, model: str | None) -> JobFeatures:
    """The trait of jobs with this profile, of any version, so many words, and this model."""
    return _shared(profile_name(profile), size_of(words), model)


@lru_cache(maxsize=4096)
def _shared(profile: str | None, size: str | None, model: str | None) -> JobFeatures:
    return JobFeatures(profile, size, model)


def size_of(words: int | None) -> str | None:
    """How large a job of so many words of instructions is; None where nobody counted."""
    if words is None:
        return None
    if words < SMALL_WORDS:
        return "small"
    return "large" if words >= LARGE_WORDS else "medium"


def profile_name(profile: str | None) -> str | None:
    """The name of a profile without its version: versions share what was learned."""
    return profile.partition("@")[0] if profile is not None else None


def language_of(needs: tuple[str, ...]) -> str | None:
    """The language of the first tool among these capabilities that stands for one, else None."""
    for token in needs:
        name = token.removeprefix("has:").partition(":")[0]
        for sign in "<>=":
            name = name.partition(sign)[0]
        if name in _LANGUAGES:
            return _LANGUAGES[name]
    return None
