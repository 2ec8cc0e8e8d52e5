"""Resolves the repo of a job: by address, by path, or by a name that this machine knows."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path

from gigafactory.domain.errors import Forbidden, NotFound
from gigafactory.factory.git.remote_url import AllowedRemotes, RemoteAddress, parse_address


class Repos:
    """The repos that jobs may use on this machine."""

    def __init__(
        self,
        base: Path | None,
        addresses: Mapping[str, str],
        served: Sequence[str],
        allowed: AllowedRemotes,
    ) -> None:
        """Serve the checkouts below `base`; `served` are shell patterns for names and addresses."""
        self._base = base
        self._addresses = addresses
        self._served = tuple(served)
        self._allowed = allowed

    def address(self, repo: str) -> RemoteAddress:
        """Return the address of a repo, for clone and push.

        Raises Forbidden or AddressRefused for a repo that this factory does not serve, NotFound
        for an unknown name.
        """
        address = self._resolve(repo)
        if not any(fnmatch(text, glob) for text in {repo, address} for glob in self._served):
            known_names = ", ".join(self._served)
            raise Forbidden(f"this factory does not serve repo {repo!r}; it serves {known_names}")
        return parse_address(address, self._allowed)

    def known_address(self, url: str) -> RemoteAddress:
        """Return the address of a repo that was served before, if it is still allowed.

        Raises AddressRefused, Forbidden.
        """
        return parse_address(url, self._allowed)

    def _resolve(self, repo: str) -> str:
        if repo in self._addresses:
            return self._addresses[repo]
        if "/" in repo or ":" in repo:
            return repo
        if self._base is not None and (checkout := self._checkout(repo)) is not None:
            return str(checkout)
        hint = "set its address (factory.addresses), or put a checkout there"
        raise NotFound("repo", repo, hint)

    def _checkout(self, name: str) -> Path | None:
        assert self._base is not None, "called only with a base folder"
        places = (self._base / name, self._base / f"{name}.git", *self._base.glob(f"*/{name}"))
        return next((place.resolve() for place in places if place.is_dir()), None)
