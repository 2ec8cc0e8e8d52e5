"""The simulated event loop: deterministic per seed, and compatible with asyncio."""

import asyncio
import random

import pytest

from tests.simulation.loop import VirtualLoop, run_virtual


def run_order(seed: int) -> list[int]:
    order: list[int] = []

    async def one(number: int) -> None:
        await asyncio.sleep(0)
        order.append(number)

    async def main() -> None:
        await asyncio.gather(*(one(number) for number in range(10)))

    run_virtual(random.Random(seed), main())
    return order


def test_the_same_seed_gives_the_same_order() -> None:
    assert run_order(7) == run_order(7)


def test_another_seed_gives_another_order() -> None:
    assert len({tuple(run_order(seed)) for seed in range(5)}) > 1


def test_an_hour_of_sleep_takes_no_time() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(3600)
        assert loop.time() == 3600

    assert run_virtual(random.Random(1), main()) == []


def test_timeout_ends_a_long_sleep() -> None:
    async def main() -> None:
        start = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(5):
                await asyncio.sleep(50)
        except TimeoutError:
            assert asyncio.get_running_loop().time() - start == 5
        else:
            raise AssertionError

    assert run_virtual(random.Random(1), main()) == []


def test_a_lock_has_one_holder_in_any_order() -> None:
    async def main() -> None:
        lock, inside = asyncio.Lock(), 0

        async def enter() -> None:
            nonlocal inside
            async with lock:
                inside += 1
                await asyncio.sleep(random.Random(inside).random())
                assert inside == 1
                inside -= 1

        await asyncio.gather(*(enter() for _ in range(20)))

    for seed in range(10):
        assert run_virtual(random.Random(seed), main()) == []


def test_event_wakes_all_waiting_tasks() -> None:
    async def main() -> None:
        event, awake = asyncio.Event(), []

        async def wait(number: int) -> None:
            await event.wait()
            awake.append(number)

        waiters = [asyncio.create_task(wait(number)) for number in range(5)]
        await asyncio.sleep(1)
        event.set()
        await asyncio.gather(*waiters)
        assert sorted(awake) == [0, 1, 2, 3, 4]

    assert run_virtual(random.Random(3), main()) == []


def test_spinning_task_is_named_and_time_advances() -> None:
    async def spin() -> None:
        for _ in iter(int, 1):
            await asyncio.sleep(0)

    async def main() -> None:
        spinning = asyncio.create_task(spin())
        await asyncio.sleep(1)
        spinning.cancel()

    assert "spin" in run_virtual(random.Random(1), main())[0]


def test_deadlock_raises_an_error() -> None:
    loop = VirtualLoop(random.Random(1))
    with pytest.raises(RuntimeError, match="deadlock"):
        loop.run_until_complete(loop.create_future())
    loop.close()
