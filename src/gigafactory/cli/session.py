"""What every command has: its settings, a client for the coordinator they lead to, and `--json`."""

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
    from gigafactory.client.transport.call import Call
    from gigafactory.client.transport.sync_client import Client

R = TypeVar("R")
T = TypeVar("T")


def access(config: Config) -> CoordinatorAccess:
    """As configured; else the coordinator of this data folder, as its owner."""
    usual, told = listen_url(config.server.host, config.server.port), config.client
    return local.coordinator_access(
        config.data, usual, url=told.url, token=told.token, product=told.product
    )


class Session:
    """One run of a command."""

    def __init__(self, loaded: Loaded, *, as_json: bool) -> None:
        self.loaded = loaded
        self.config = loaded.config
        self.as_json = as_json

    @cached_property
    def access(self) -> CoordinatorAccess:
        """Where the coordinator is."""
        return access(self.config)

    @cached_property
    def client(self) -> "Client":
        """The client, opened when it is first needed."""
        from gigafactory.client.transport.sync_client import Client

        return Client(self.access.url, self.access.token, product=self.access.product)

    def unscoped(self) -> None:
        """Ask about all products that the token covers, unless one was chosen."""
        self.client.product = self.config.client.product

    def answer(self, call: "Call[T]", show: Callable[[T], None]) -> None:
        """Send a call and print its answer: as it came with `--json`, else as `show` does.

        Raises Refused.
        """
        body = self.client.fetch(call)
        if self.as_json:
            say_json(body or b"null")
        else:
            show(call.read(body))


def with_settings(function: Callable[..., R]) -> Callable[..., R]:
    """Give a command a Session as its first argument, and the options that lead to one."""

    @click.option("--json", "as_json", is_flag=True, help="Print JSON, as the API gives it.")
    @click.option("--data", type=click.Path(path_type=Path), help="The data folder.")
    @click.option(
        "--config", "config_file", type=click.Path(path_type=Path), help="The file of settings."
    )
    @functools.wraps(function)
    def command(*, as_json: bool, config_file: Path | None, **given: object) -> R:
        config_file = config_file or _of_folder(given.get("folder"))
        flags = {key: given.pop(name) for name, key in FLAGS.items() if name in given}
        loaded = load(os.environ, file=config_file, flags=flags)
        return function(Session(loaded, as_json=as_json), **given)

    return command


def _of_folder(folder: object) -> Path | None:
    """The settings of a queue, wherever a command about it is typed."""
    file = folder / FILE_NAME if isinstance(folder, Path) else None
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
"""Options that are settings; whichever a command declares goes over file and environment."""


def for_fleet(function: Callable[..., R]) -> Callable[..., R]:
    """The same for a command that asks a coordinator."""
    product = click.option("--product", "-p", help="The product that this is about.")
    url = click.option("--url", help="The coordinator's address.")
    return product(url(with_settings(function)))
