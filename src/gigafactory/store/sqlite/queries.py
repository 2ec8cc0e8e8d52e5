"""The SQL of the embedded store: one query a file, named after what it does."""

from collections.abc import Mapping
from importlib import resources

_FOLDER = resources.files(__package__)

SQL: Mapping[str, str] = {
    file.name.removesuffix(".sql"): file.read_text(encoding="utf-8")
    for file in _FOLDER.iterdir()
    if file.name.endswith(".sql") and file.name != "schema.sql"
}
"""Every query by its name."""

SCHEMA: str = _FOLDER.joinpath("schema.sql").read_text(encoding="utf-8")
"""What the migrations add up to."""

MIGRATIONS: tuple[str, ...] = tuple(
    file.read_text(encoding="utf-8")
    for file in sorted(_FOLDER.joinpath("migrations").iterdir(), key=lambda file: file.name)
    if file.name.endswith(".sql")
)
"""The steps from an empty file to the newest schema, in order, forward only."""
