"""Features of a job known before its first run: profile, size, model, language."""

from functools import lru_cache

import msgspec

SMALL_WORDS = 50
LARGE_WORDS = 200
"""Instructions below SMALL_WORDS words are small, from LARGE_WORDS on large, else medium."""

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
    """Profile, size and model of a job; jobs with equal features share one object."""

    profile: str | None
    size: str | None
    model: str | None


@lru_cache(maxsize=4096)
def features_of(profile: str | None, words: int | None, model: str | None) -> JobFeatures:
    """Return the shared features of jobs with this profile, number of words and model."""
    return _shared(profile_name(profile), size_of(words), model)


@lru_cache(maxsize=4096)
def _shared(profile: str | None, size: str | None, model: str | None) -> JobFeatures:
    return JobFeatures(profile, size, model)


def size_of(words: int | None) -> str | None:
    """Return `small`, `medium` or `large` for a number of words; None if it is unknown."""
    if words is None:
        return None
    if words < SMALL_WORDS:
        return "small"
    return "large" if words >= LARGE_WORDS else "medium"


def profile_name(profile: str | None) -> str | None:
    """Return the profile without its version: versions share their observations."""
    return profile.partition("@")[0] if profile is not None else None


def language_of(needs: tuple[str, ...]) -> str | None:
    """Return the language implied by the first capability that names a known tool, else None."""
    for token in needs:
        name = token.removeprefix("has:").partition(":")[0]
        for sign in "<>=":
            name = name.partition(sign)[0]
        if name in _LANGUAGES:
            return _LANGUAGES[name]
    return None
