"""The glossary is short, sorted, and consistent with the source."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "gigafactory"
GLOSSARY = ROOT / "docs" / "glossary.md"
ROW = re.compile(
    r"^\| (?P<word>[a-z][a-z -]*) \| (?P<meaning>.+?) \| (?P<where>.+?) \| (?P<not>.*?) ?\|$"
)
WORDS_MAX = 40


def rows() -> list[dict[str, str]]:
    lines = GLOSSARY.read_text().splitlines()
    found = [match.groupdict() for line in lines if (match := ROW.match(line))]
    return [row for row in found if row["word"] != "word"]


def names() -> set[str]:
    """Return the words of all module, class and function names in the source."""
    found = set[str]()
    for path in SOURCES.rglob("*.py"):
        found |= split(path.stem)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                found |= split(node.name)
    return found


def split(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def test_glossary_is_short_and_sorted() -> None:
    words = [row["word"] for row in rows()]
    assert 0 < len(words) <= WORDS_MAX
    assert words == sorted(set(words))


def test_every_place_in_the_glossary_exists() -> None:
    missing = [
        f"{row['word']}: {place}"
        for row in rows()
        for place in re.findall(r"`([^`]+)`", row["where"])
        if not (SOURCES / place).exists()
    ]
    assert missing == []


def test_no_name_uses_a_synonym_of_a_word() -> None:
    banned = {word.strip() for row in rows() for word in row["not"].split(",") if word.strip()}
    assert banned, "the glossary lists the synonyms that names must not use"
    used = names()
    assert {word for word in banned if word in used or f"{word}s" in used} == set()
