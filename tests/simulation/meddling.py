"""What operators do to the fleet: halt, resume, drain, revoke, rotate, deregister, let back in."""

import asyncio
import random
from collections.abc import Awaitable, Callable

from gigafactory.domain.errors import Refused
from gigafactory.domain.tenancy.budget import AtCeiling, BudgetTerms, Period
from gigafactory.domain.tenancy.dispatch_mode import DispatchMode
from tests.simulation.factories import Machine
from tests.simulation.network import Lost
from tests.simulation.people import Person

Deed = Callable[[], Awaitable[None]]


class Meddler:
    """An admin with too much time."""

    def __init__(self, person: Person, machines: list[Machine], rng: random.Random) -> None:
        """Meddle with these machines."""
        self._person = person
        self._machines = machines
        self._rng = rng
        self._rejoined = 0
        self._halted = "*"

    async def meddle(self, a_minute: float) -> None:
        """Do something to the fleet so many times a minute."""
        deeds: tuple[Deed, ...] = (
            *(self.halt, self.resume) * 3,
            *(self.drain_one, self.undrain_one) * 2,
            self.rotate,
            self.revoke,
            self.deregister,
        )
        while True:
            await asyncio.sleep(self._rng.expovariate(a_minute / 60.0))
            await self._rng.choice(deeds)()

    async def _try(self, asking: Awaitable[object]) -> bool:
        try:
            await asking
        except (Lost, Refused):
            return False
        return True

    async def halt(self) -> None:
        """Stop a product or everything."""
        self._halted = self._rng.choice(("*", "notes", "shop"))
        await self.turn(self._halted, halted=True)

    async def resume(self) -> None:
        """Let go on what was halted last."""
        await self.turn(self._halted, halted=False)

    async def turn(self, target: str, *, halted: bool) -> None:
        """Turn a switch."""
        product = None if target == "*" else target
        await self._try(
            self._person.ask(
                "halt" if halted else "resume",
                lambda c, by: c.halt_switches.set_halted(by, product, halted=halted),
                target=target,
            )
        )

    async def budget(self, product: str, terms: BudgetTerms) -> None:
        """Say what a product may spend."""
        await self._try(
            self._person.ask(
                "budget", lambda c, by: c.budgets.put(by, product, terms), product=product
            )
        )

    async def pause(self, product: str) -> None:
        """Have nothing of a product begun."""
        await self._try(
            self._person.ask("pause", lambda c, by: c.budgets.pause(by, product), product=product)
        )

    async def go_on(self, product: str) -> None:
        """Lift a pause."""
        await self._try(
            self._person.ask("go-on", lambda c, by: c.budgets.resume(by, product), product=product)
        )

    async def save(self, within_s: float) -> None:
        """Give a product a small budget at some time, and pause it now and then."""
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
            await self.budget(product, terms)
            await asyncio.sleep(rng.uniform(3.0, within_s))
            await self.pause(product)
            await asyncio.sleep(rng.uniform(1.0, 6.0))
            await self.go_on(product)

    async def switch_ways(self, within_s: float) -> None:
        """Change now and then how jobs reach factories; how it is at last, it stays."""
        rng = self._rng
        while True:
            await asyncio.sleep(rng.uniform(0.0, within_s / 3))
            await self.way(rng.choice(("notes", "shop")), rng.choice(tuple(DispatchMode)))

    async def way(self, product: str, way: DispatchMode) -> None:
        """Set how a product's jobs reach factories."""
        await self._try(
            self._person.ask(
                "dispatch",
                lambda c, by: c.dispatch_control.set_mode(by, product, way, force=True),
                product=product,
            )
        )

    async def drain_one(self) -> None:
        """Have a machine take nothing new."""
        await self.drain(self._rng.choice(self._machines).id, draining=True)

    async def undrain_one(self) -> None:
        """Have a machine take work again."""
        await self.drain(self._rng.choice(self._machines).id, draining=False)

    async def drain(self, factory_id: str, *, draining: bool) -> None:
        """Have a factory take nothing new, or take work again."""
        await self._try(
            self._person.ask(
                "drain" if draining else "undrain",
                lambda c, by: c.factories.drain(by, factory_id, draining=draining),
                factory=factory_id,
            )
        )

    async def rotate(self) -> None:
        """Give a machine a new token; it is told at once."""
        machine = self._rng.choice(self._machines)
        old = machine.secret
        try:
            made = await self._person.ask(
                "rotate",
                lambda c, by: c.enrolment.rotate(by, machine.id),
                keyed=False,
                tries=1,
                ends=old,
                factory=machine.id,
            )
        except (Lost, Refused):
            return
        for twin in self._machines:
            if twin.secret == old and self._rng.random() < 0.7:
                twin.secret = made.token

    async def revoke(self) -> None:
        """End a machine's token."""
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
        """Remove a machine from the fleet."""
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

    async def let_back_in(self, machine: Machine) -> None:
        """Enroll a machine under a new id, as an operator does after a revocation."""
        self._rejoined += 1
        name = f"{machine.id.partition('.')[0]}.{self._rejoined}"
        products = machine.make.products
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
