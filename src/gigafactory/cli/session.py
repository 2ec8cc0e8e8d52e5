"""The context of a command: settings, client and `--json`."""

import functools
import os
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from gigafactory.cli.output.text import say_json
from gigafactory.config import data_dir as local
from gigafactory.config.data_dir import FILE_NAME, CoordinatorAccess, listen_url
from gigafactory.config.loading import Loaded, load
from gigafactory.config.settings import Config

if TYPE_CHECKING:
    from gigafactory.client.transport.call import ApiCall
    from gigafactory.client.transport.sync_client import Client

R = TypeVar("R")
T = TypeVar("T")


def access(config: Config) -> CoordinatorAccess:
    """Return the configured coordinator, or the one of this data folder as its owner."""
    default_url, client = listen_url(config.server.host, config.server.port), config.client
    return local.coordinator_access(
        config.data, default_url, url=client.url, token=client.token, product=client.product
    )


class Session:
    """One invocation of a command."""

    def __init__(self, loaded: Loaded, *, as_json: bool) -> None:
        self.loaded = loaded
        self.config = loaded.config
        self.as_json = as_json

    @cached_property
    def access(self) -> CoordinatorAccess:
        """URL, token and product of the coordinator."""
        return access(self.config)

    @cached_property
    def client(self) -> "Client":
        """The client, opened on first use."""
        from gigafactory.client.transport.sync_client import Client

        return Client(self.access.url, self.access.token, product=self.access.product)

    def unscoped(self) -> None:
        """Query all products of the token, unless one was chosen."""
        self.client.product = self.config.client.product

    def answer(self, call: "ApiCall[T]", show: Callable[[T], None]) -> None:
        """Send a call and print the response: raw with `--json`, otherwise through `show`.

        Raise Refused.
        """
        body = self.client.fetch(call)
        if self.as_json:
            say_json(body or b"null")
        else:
            show(call.decode(body))


def with_settings(function: Callable[..., R]) -> Callable[..., R]:
    """Pass a Session to a command as its first argument, and add the common options."""

    @click.option("--json", "as_json", is_flag=True, help="Print JSON, as the API returns it.")
    @click.option("--data", type=click.Path(path_type=Path), help="Data folder.")
    @click.option(
        "--config", "config_file", type=click.Path(path_type=Path), help="Settings file (aq.toml)."
    )
    @functools.wraps(function)
    def command(*, as_json: bool, config_file: Path | None, **given: object) -> R:
        config_file = config_file or _folder_config(given.get("folder"))
        flags = {key: given.pop(name) for name, key in FLAGS.items() if name in given}
        loaded = load(os.environ, file=config_file, flags=flags)
        return function(Session(loaded, as_json=as_json), **given)

    return command


def _folder_config(folder: object) -> Path | None:
    # The current folder is searched like any other, since nobody has named it.
    file = folder / FILE_NAME if isinstance(folder, Path) and folder != Path() else None
    return file if file is not None and file.is_file() else None


FLAGS = {
    "data": "data",
    "host": "server.host",
    "port": "server.port",
    "store": "store",
    "history": "history",
    "inbox": "factory.inbox",
    "url": "client.url",
    "product": "client.product",
}
"""Options that override settings from file and environment."""


def for_fleet(function: Callable[..., R]) -> Callable[..., R]:
    """Like `with_settings`, for commands that use a coordinator."""
    product = click.option("--product", "-p", help="Product to use.")
    url = click.option("--url", help="URL of the coordinator.")
    return product(url(with_settings(function)))
