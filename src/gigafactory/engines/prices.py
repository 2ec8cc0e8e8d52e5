"""The list prices that come with the program, and the day on which they were taken."""

import tomllib
from datetime import date
from functools import cache
from importlib.resources import files

import msgspec

from gigafactory.domain.job.token_price import Price, Prices


class PriceList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What models cost on some day."""

    taken: date
    prices: dict[str, Price]


@cache
def load_price_list() -> PriceList:
    """The list of this version."""
    text = files("gigafactory.engines").joinpath("prices.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), PriceList)


def merge_prices(own: Prices) -> Prices:
    """The shipped prices, with those of one's own over them."""
    return {**load_price_list().prices, **own}
