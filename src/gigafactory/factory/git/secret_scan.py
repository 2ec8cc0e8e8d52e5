"""Scans work for secrets of this factory before every push."""

from collections.abc import Iterable

from gigafactory.domain.errors import Refused
from gigafactory.factory.git.mirror import Mirror
from gigafactory.factory.secrets.encodings import all_encoded_forms

LOOKED_AT_BYTES_MAX = 256 * 1024 * 1024


class SecretInWork(Refused):
    """The work contains a secret of this factory, so nothing was pushed."""

    code = "secret_in_work"

    def __init__(self, paths: Iterable[str]) -> None:
        """Name the files, never the secret."""
        self.paths = tuple(paths)
        listed = ", ".join(self.paths[:5])
        super().__init__(
            f"the work contains a secret of this factory ({listed}); nothing was pushed: remove it"
            " from the work, and change the secret"
        )


async def refuse_secrets(mirror: Mirror, base: str, commit: str, secrets: Iterable[str]) -> None:
    """Scan everything that a commit adds to its base, for all encodings of the secrets.

    Raises SecretInWork, or GitFailed if it is too large to scan.
    """
    forms = all_encoded_forms(secrets)
    if not forms or base == commit:
        return
    output = await mirror.run(
        *("diff-tree", "-r", "-p", "--text", "--no-ext-diff", "--no-textconv", "--no-renames"),
        *("--end-of-options", base, commit, "--"),
        output_bytes_max=LOOKED_AT_BYTES_MAX,
    )
    if paths := paths_with_secrets(output.stdout, forms):
        raise SecretInWork(paths)


def paths_with_secrets(diff: bytes, forms: Iterable[bytes]) -> list[str]:
    """Return the paths of a diff whose names or added lines contain one of the forms."""
    wanted = tuple(forms)
    if not any(form in diff for form in wanted):
        return []
    paths: dict[str, None] = {}
    path = b""
    for line in diff.split(b"\n"):
        if line.startswith(b"diff --git "):
            path = line.rpartition(b" b/")[2]
            new = path
        else:
            new = line[1:] if line.startswith(b"+") else b""
        if any(form in new for form in wanted):
            paths[path.decode("utf-8", "replace")] = None
    return list(paths)
