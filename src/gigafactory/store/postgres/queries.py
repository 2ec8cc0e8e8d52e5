"""The SQL of the PostgreSQL store: one query per file, by file name."""

from collections.abc import Mapping
from importlib import resources

_FOLDER = resources.files(__package__)

SQL: Mapping[str, str] = {
    file.name.removesuffix(".sql"): file.read_text(encoding="utf-8")
    for file in _FOLDER.iterdir()
    if file.name.endswith(".sql") and file.name != "schema.sql"
}
"""All queries by name."""

SCHEMA: str = _FOLDER.joinpath("schema.sql").read_text(encoding="utf-8")
"""The schema after all migrations."""

MIGRATIONS: tuple[str, ...] = tuple(
    file.read_text(encoding="utf-8")
    for file in sorted(_FOLDER.joinpath("migrations").iterdir(), key=lambda file: file.name)
    if file.name.endswith(".sql")
)
"""The steps from an empty schema to the current one, in order."""
