"""`aq product`: list, show and set products."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click
import msgspec

from gigafactory.cli.output.text import note, pairs, table
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client import products
from gigafactory.domain.job.job import Priority
from gigafactory.domain.manifest.units import parse_duration
from gigafactory.domain.tenancy.product import DEFAULT_PRODUCT, Weights
from gigafactory.wire.products import ProductDoc, ProductsView, ProductView, WeightsDoc

V = TypeVar("V")

TERMS = [field.encode_name for field in msgspec.structs.fields(Weights)]
"""Terms of the score, by their API names."""
WEIGHT_MAX = 1000
NO_WAIT = "none"


@click.group()
def product() -> None:
    """List, show and set products: repos, share, weights, target waits."""


@product.command("list")
@for_fleet
def list_(session: Session) -> None:
    """List the configured products of the token."""
    session.unscoped()
    session.answer(products.products(), _show_all)


def _show_all(page: ProductsView) -> None:
    heads = ("PRODUCT", "SHARE", "TARGET WAIT", "PROTECTED", "REPOS")
    rows = [
        (
            each.id,
            each.share,
            _format_pairs(each.target_wait),
            len(each.protected_paths) or None,
            ", ".join(each.repos) or "any",
        )
        for each in page.products
    ]
    table(heads, rows)
    if not rows:
        note("no product is configured; all use the defaults")


@product.command()
@click.argument("name", required=False)
@for_fleet
def show(session: Session, *, name: str | None) -> None:
    """Show a product; one that is not configured has the defaults."""
    session.answer(products.product(_product_id(session, name)), _show)


def _show(view: ProductView) -> None:
    pairs(
        (
            ("product", view.id),
            ("repos", view.repos or "any"),
            ("share", view.share),
            ("weights", _format_pairs(msgspec.to_builtins(view.weights))),
            ("protected paths", view.protected_paths or "none"),
            ("target wait", _format_pairs(view.target_wait) or "none"),
        )
    )


def _format_pairs(values: Mapping[Any, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _product_id(session: Session, name: str | None) -> str:
    return name or session.access.product or DEFAULT_PRODUCT


def _weight(text: str) -> float:
    expected = f"a number from 0 to {WEIGHT_MAX}"
    try:
        value = float(text)
    except ValueError:
        raise ValueError(expected) from None
    # NaN fails this comparison too.
    if not 0 <= value <= WEIGHT_MAX:
        raise ValueError(expected)
    return value


def _wait(text: str) -> str:
    if text != NO_WAIT:
        parse_duration(text)
    return text


class Pair(click.ParamType[tuple[str, V]]):
    """A parameter NAME=VALUE with one of the given names."""

    name = "name=value"

    def __init__(self, names: Sequence[str], read: Callable[[str], V]) -> None:
        self._names = names
        self._read = read

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, V]:
        name, given, text = str(value).partition("=")
        if name not in self._names or not given:
            self.fail(f"found {value!r}; expected NAME=… of {', '.join(self._names)}", param, ctx)
        try:
            return name, self._read(text)
        except ValueError as expected:
            self.fail(f"found {value!r}; expected {expected}", param, ctx)


@product.command("set")
@click.argument("name", required=False)
@click.option(
    "--share",
    type=click.FloatRange(0, 1000, min_open=True),
    help="Weight in the fair share of seat time.",
)
@click.option(
    "--repo", "repos", multiple=True, help="Repo of the product, repeatable; '' alone for any repo."
)
@click.option(
    "--protect",
    "paths",
    multiple=True,
    metavar="GLOB",
    help="Protected path, repeatable; '' for none.",
)
@click.option(
    "--weight",
    "weights",
    type=Pair(TERMS, _weight),
    multiple=True,
    help="Weight of a score term: affinity=0.5.",
)
@click.option(
    "--target-wait",
    "waits",
    type=Pair([priority.value for priority in Priority], _wait),
    multiple=True,
    help="Target wait of a priority: critical=5m; low=none for no target.",
)
@for_fleet
def set_(
    session: Session,
    *,
    name: str | None,
    share: float | None,
    repos: tuple[str, ...],
    paths: tuple[str, ...],
    weights: tuple[tuple[str, float], ...],
    waits: tuple[tuple[str, str], ...],
) -> None:
    """Configure a product; options that are not given stay unchanged.

    --repo and --protect replace the whole list.
    """
    if share is None and not (repos or paths or weights or waits):
        raise click.UsageError("nothing to set: use --share, --repo, --protect, …")
    before = session.client.send(products.product(_product_id(session, name)))
    target_wait = before.target_wait | {Priority(priority): wait for priority, wait in waits}
    doc = ProductDoc(
        repos=tuple(filter(None, repos)) if repos else before.repos,
        share=before.share if share is None else share,
        weights=msgspec.convert(msgspec.to_builtins(before.weights) | dict(weights), WeightsDoc),
        protected_paths=tuple(filter(None, paths)) if paths else before.protected_paths,
        target_wait={priority: wait for priority, wait in target_wait.items() if wait != NO_WAIT},
    )
    session.answer(products.set_product(before.id, doc), _show)
