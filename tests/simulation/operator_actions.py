"""Operator actions on the fleet: halt, drain, rotate, revoke, budgets, dispatch modes."""

import asyncio
import random
from collections.abc import Awaitable, Callable

from gigafactory.domain.errors import Refused
from gigafactory.domain.tenancy.budget import AtCeiling, BudgetTerms, Period
from gigafactory.domain.tenancy.dispatch_mode import DispatchMode
from tests.simulation.factories import Machine
from tests.simulation.network import Lost
from tests.simulation.people import Person

Action = Callable[[], Awaitable[None]]


class FleetOperator:
    """An admin who changes the fleet at random."""

    def __init__(self, person: Person, machines: list[Machine], rng: random.Random) -> None:
        """Act through a person on these machines."""
        self._person = person
        self._machines = machines
        self._rng = rng
        self._rejoined = 0
        self._halted = "*"

    async def intervene(self, per_minute: float) -> None:
        """Take random actions at a rate per minute."""
        actions: tuple[Action, ...] = (
            *(self.halt, self.resume) * 3,
            *(self.drain_one, self.undrain_one) * 2,
            self.rotate,
            self.revoke,
            self.deregister,
        )
        while True:
            await asyncio.sleep(self._rng.expovariate(per_minute / 60.0))
            await self._rng.choice(actions)()

    async def _try(self, request: Awaitable[object]) -> bool:
        try:
            await request
        except (Lost, Refused):
            return False
        return True

    async def halt(self) -> None:
        """Halt a product or everything."""
        self._halted = self._rng.choice(("*", "notes", "shop"))
        await self.set_halted(self._halted, halted=True)

    async def resume(self) -> None:
        """Resume the last halted target."""
        await self.set_halted(self._halted, halted=False)

    async def set_halted(self, target: str, *, halted: bool) -> None:
        """Set a halt switch."""
        product = None if target == "*" else target
        await self._try(
            self._person.ask(
                "halt" if halted else "resume",
                lambda c, by: c.halt_switches.set_halted(by, product, halted=halted),
                target=target,
            )
        )

    async def reuse_key(self) -> None:
        """Send two different requests with one key; the second must be refused."""
        for target in ("notes", "shop"):
            await self._try(self._person.resume_with_key("used twice", target))

    async def set_budget(self, product: str, terms: BudgetTerms) -> None:
        """Set the budget of a product."""
        await self._try(
            self._person.ask(
                "budget", lambda c, by: c.budgets.put(by, product, terms), product=product
            )
        )

    async def pause_budget(self, product: str) -> None:
        """Pause a product's budget."""
        await self._try(
            self._person.ask("pause", lambda c, by: c.budgets.pause(by, product), product=product)
        )

    async def resume_budget(self, product: str) -> None:
        """Resume a product's budget."""
        await self._try(
            self._person.ask(
                "resume-budget", lambda c, by: c.budgets.resume(by, product), product=product
            )
        )

    async def manage_budget(self, within_s: float) -> None:
        """Give a product a small budget, and pause and resume it at random."""
        rng = self._rng
        product = rng.choice(("notes", "notes", "shop"))
        await asyncio.sleep(rng.choice((0.0, rng.uniform(0.0, within_s))))
        while True:
            terms = BudgetTerms(
                ceiling_nano_usd=rng.randint(1, 6),
                period=Period.TOTAL,
                reserve_nano_usd=rng.randint(0, 2),
                at_ceiling=rng.choice((AtCeiling.STOP, AtCeiling.STOP, AtCeiling.FINISH)),
            )
            await self.set_budget(product, terms)
            await asyncio.sleep(rng.uniform(3.0, within_s))
            await self.pause_budget(product)
            await asyncio.sleep(rng.uniform(1.0, 6.0))
            await self.resume_budget(product)

    async def change_dispatch_modes(self, within_s: float) -> None:
        """Change dispatch modes at random; the last modes stay."""
        rng = self._rng
        while True:
            await asyncio.sleep(rng.uniform(0.0, within_s / 3))
            await self.set_dispatch_mode(
                rng.choice(("notes", "shop")), rng.choice(tuple(DispatchMode))
            )

    async def set_dispatch_mode(self, product: str, mode: DispatchMode) -> None:
        """Set the dispatch mode of a product."""
        await self._try(
            self._person.ask(
                "dispatch",
                lambda c, by: c.dispatch_control.set_mode(by, product, mode, force=True),
                product=product,
            )
        )

    async def drain_one(self) -> None:
        """Drain a random machine."""
        await self.drain(self._rng.choice(self._machines).id, draining=True)

    async def undrain_one(self) -> None:
        """Undrain a random machine."""
        await self.drain(self._rng.choice(self._machines).id, draining=False)

    async def drain(self, factory_id: str, *, draining: bool) -> None:
        """Drain or undrain a factory."""
        await self._try(
            self._person.ask(
                "drain" if draining else "undrain",
                lambda c, by: c.factories.drain(by, factory_id, draining=draining),
                factory=factory_id,
            )
        )

    async def rotate(self) -> None:
        """Rotate the token of a random machine; most processes get the new one at once."""
        machine = self._rng.choice(self._machines)
        old = machine.secret
        try:
            rotated = await self._person.ask(
                "rotate",
                lambda c, by: c.enrolment.rotate(by, machine.id),
                keyed=False,
                tries=1,
                ends=old,
                factory=machine.id,
            )
        except (Lost, Refused):
            return
        for other in self._machines:
            if other.secret == old and self._rng.random() < 0.7:
                other.secret = rotated.token

    async def revoke(self) -> None:
        """Revoke the token of a random machine."""
        machine = self._rng.choice(self._machines)
        await self._try(
            self._person.ask(
                "revoke",
                lambda c, by: c.enrolment.revoke(by, machine.id),
                keyed=False,
                tries=1,
                ends=machine.secret,
                factory=machine.id,
            )
        )

    async def deregister(self) -> None:
        """Deregister a random machine."""
        machine = self._rng.choice(self._machines)
        await self._try(
            self._person.ask(
                "deregister",
                lambda c, by: c.enrolment.deregister(by, machine.id),
                keyed=False,
                tries=1,
                ends=machine.secret,
                factory=machine.id,
            )
        )

    async def reenroll(self, machine: Machine) -> None:
        """Enroll a machine under a new id, as an operator does after a revocation."""
        self._rejoined += 1
        name = f"{machine.id.partition('.')[0]}.{self._rejoined}"
        products = machine.spec.products
        try:
            invitation = await self._person.ask(
                "invite", lambda c, by: c.enrolment.invite(by, products), keyed=False
            )
            joined = await self._person.ask(
                "enroll", lambda c, _: c.enrolment.enroll(invitation.secret, name), keyed=False
            )
        except (Lost, Refused):
            return
        machine.crash()
        machine.runs.clear()
        machine.id, machine.secret, machine.lost_token = name, joined.token, False
        machine.boot()
