"""Records of products."""

from collections.abc import Callable, Iterator
from typing import Annotated

from msgspec import Meta, field

from gigafactory.domain.errors import Fault, Invalid
from gigafactory.domain.job.job import Priority
from gigafactory.domain.manifest.names import glob
from gigafactory.domain.manifest.repo import repo
from gigafactory.domain.manifest.units import parse_duration
from gigafactory.domain.tenancy.product import Product, Weights
from gigafactory.wire.fields import Line, RequestDoc, ResponseView, Word

Weight = Annotated[float, Meta(ge=0, le=1000)]


class WeightsDoc(RequestDoc, frozen=True, kw_only=True, omit_defaults=False):
    """Weight of each term of the score."""

    capability_fit: Weight = 1.0
    affinity: Weight = 0.5
    load: Weight = 1.0
    cost_fit: Weight = 0.75
    health: Weight = 1.0
    starvation: Weight = 1.5
    scarcity: Weight = 0.5
    learned: Weight = 0.0

    def to_domain(self) -> Weights:
        """Return the domain record."""
        return Weights(
            capability_fit=self.capability_fit,
            affinity=self.affinity,
            load=self.load,
            cost_fit=self.cost_fit,
            health=self.health,
            starvation=self.starvation,
            scarcity=self.scarcity,
            learned=self.learned,
        )


class ProductDoc(RequestDoc, frozen=True, kw_only=True):
    """Settings of a product; omitted ones get their defaults."""

    id: Word | None = None
    """Optional; the path decides."""
    repos: Annotated[tuple[Line, ...], Meta(max_length=1000)] = ()
    """Names or addresses of its repos; empty: any repo. A name does not stand for an address."""
    share: Annotated[float, Meta(gt=0, le=1000)] = 1.0
    weights: WeightsDoc = WeightsDoc()
    protected_paths: Annotated[tuple[Line, ...], Meta(max_length=500)] = ()
    target_wait: dict[Priority, Word] = field(default_factory=dict)
    """Target wait by priority, as `5m`; longer waits are reported."""

    def to_domain(self, product_id: str) -> Product:
        """Return the domain record.

        Raises Invalid.
        """
        faults = [
            *_faults("repos", self.repos, repo),
            *_faults("protectedPaths", self.protected_paths, glob),
            *(
                Fault(f"targetWait.{priority}", f"found {text[:60]!r}; expected {expected}")
                for priority, text in self.target_wait.items()
                if (expected := check_wait(text))
            ),
        ]
        if faults:
            raise Invalid("the product", faults)
        return Product(
            id=product_id,
            repos=self.repos,
            share=self.share,
            weights=self.weights.to_domain(),
            protected_paths=self.protected_paths,
            target_wait={of: parse_duration(text) for of, text in self.target_wait.items()},
        )


def check_wait(text: str) -> str | None:
    """Return the expected format if a wait is invalid, or None."""
    try:
        return None if parse_duration(text) else "more than zero"
    except ValueError as expected:
        return str(expected)


def _faults(field: str, texts: tuple[str, ...], check: Callable[[str], str]) -> Iterator[Fault]:
    for number, text in enumerate(texts):
        try:
            check(text)
        except ValueError as expected:
            yield Fault(f"{field}[{number}]", f"found {text[:60]!r}; expected {expected}")


class ProductView(ResponseView, frozen=True, kw_only=True):
    """A tenant and its settings."""

    id: str
    repos: tuple[str, ...]
    share: float
    weights: Weights
    protected_paths: tuple[str, ...]
    target_wait: dict[Priority, str]


class ProductsView(ResponseView, frozen=True, kw_only=True):
    """Configured products, by id."""

    products: tuple[ProductView, ...]
