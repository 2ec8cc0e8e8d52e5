"""Which repo a job means: by its address, its path, or the name that this machine knows it by."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path

from gigafactory.domain.errors import Forbidden, NotFound
from gigafactory.factory.git.remote_url import Address, Allowed, clone_address


class Repos:
    """The repos that jobs may have on this machine."""

    def __init__(
        self,
        base: Path | None,
        addresses: Mapping[str, str],
        served: Sequence[str],
        allowed: Allowed,
    ) -> None:
        """`base` is a folder of checkouts; `served` are shell patterns over names and addresses."""
        self._base = base
        self._addresses = addresses
        self._served = tuple(served)
        self._allowed = allowed

    def address(self, repo: str) -> Address:
        """Where a repo is cloned from, and pushed to.

        Raises Forbidden for one that this factory does not serve, NotFound for an unknown name,
        AddressRefused for a place that no factory should talk to.
        """
        found = self._found(repo)
        if not any(fnmatch(text, glob) for text in {repo, found} for glob in self._served):
            shown = ", ".join(self._served)
            raise Forbidden(f"this factory does not serve repo {repo!r}; it serves {shown}")
        return clone_address(found, self._allowed)

    def address_again(self, url: str) -> Address:
        """The address of a repo that was served here before, if one may still talk to it.

        Raises AddressRefused.
        """
        return clone_address(url, self._allowed)

    def _found(self, repo: str) -> str:
        if repo in self._addresses:
            return self._addresses[repo]
        if "/" in repo or ":" in repo:
            return repo
        if self._base is not None and (checkout := self._checkout(repo)) is not None:
            return str(checkout)
        hint = "name its address in the settings (factory.addresses), or put a checkout there"
        raise NotFound("repo", repo, hint)

    def _checkout(self, name: str) -> Path | None:
        assert self._base is not None, "asked only where there is one"
        places = (self._base / name, self._base / f"{name}.git", *self._base.glob(f"*/{name}"))
        return next((place.resolve() for place in places if place.is_dir()), None)
