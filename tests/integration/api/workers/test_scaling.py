"""GET /scaling: waiting jobs by their requirements, and the number of factories they need."""

import json
from typing import Any

import httpx
import pytest

from gigafactory.client.scaling import scaling
from gigafactory.domain.scaling.scale_target import Shape
from gigafactory.domain.tenancy.access import Role
from tests.support.api_server import Server, Worker
from tests.support.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

MAC = {"capabilities": "os:mac", "engines": "claude=4", "slots": "4"}


async def submitted(admin: httpx.AsyncClient, count: int = 1, **manifest: object) -> None:
    jobs = [{"manifest": {"engine": "claude", **manifest, "name": f"j{n}"}} for n in range(count)]
    assert (await admin.post("/jobs", json={"jobs": jobs})).status_code == 201


async def looked(admin: httpx.AsyncClient, **query: object) -> dict[str, Any]:
    answer = await admin.get("/scaling", params={key: str(value) for key, value in query.items()})
    assert answer.status_code == 200, answer.text
    data: dict[str, Any] = answer.json()
    return data


async def test_empty_queue_wants_only_warm_factories(admin: httpx.AsyncClient) -> None:
    assert await looked(admin) | {"at": ""} == {"at": "", "classes": [], "shapes": []}
    result = await looked(admin, **MAC, warm=1, name="mac")
    assert result["wanted"] == 1
    (shape,) = result["shapes"]
    assert shape == {
        "name": "mac",
        "wanted": 1,
        "needed": 0,
        "more": 0,
        "waiting": 0,
        "late": False,
        "factories": [],
    }


async def test_waiting_jobs_are_grouped_by_their_requirements(
    admin: httpx.AsyncClient, product: str
) -> None:
    await admin.put(f"/products/{product}", json={"targetWait": {"high": "1h"}})
    await submitted(admin, 5, capabilities=["os:mac"], priority="high")
    result = await looked(admin, **MAC)
    assert result["wanted"] == 2
    (demand,) = result["classes"]
    assert demand.pop("oldestWaitSec") >= 0
    assert demand == {
        "productId": product,
        "priority": "high",
        "step": "run",
        "capabilities": ["os:mac"],
        "engine": "claude",
        "engineClass": "agentic-coder",
        "repo": None,
        "sandbox": None,
        "waiting": 5,
        "unserved": 5,
        "free": 0,
        "running": 0,
        "targetWaitSec": 3600.0,
        "late": False,
        "stopped": None,
    }


async def test_running_jobs_and_their_factories_are_reported(
    admin: httpx.AsyncClient, worker: Worker
) -> None:
    await submitted(admin)
    result = await looked(admin, **MAC)
    assert (result["wanted"], result["classes"][0]["free"]) == (0, 4)
    await worker.granted()
    result = await looked(admin, **MAC, factories=worker.id)
    assert (result["wanted"], result["classes"][0]["running"]) == (1, 1)
    (sight,) = result["shapes"][0]["factories"]
    assert (sight["id"], sight["state"], sight["jobs"]) == (worker.id, "busy", 1)
    assert sight["lacks"] == []


async def test_several_shapes_share_the_waiting_jobs(
    server: Server, admin: httpx.AsyncClient
) -> None:
    await submitted(admin, 3)
    shapes = [
        Shape(name="first", capabilities=("os:mac",), engines={"claude": 1}, maximum=2),
        Shape(name="second", engines={"claude": 1}, factories="none-"),
    ]
    answer = await admin.get(scaling(shapes).target.removeprefix("/api/fleet"))
    record = scaling(shapes).decode(answer.content)
    assert [(one.name, one.wanted) for one in record.shapes] == [("first", 2), ("second", 1)]
    assert answer.json()["wanted"] == 3


async def test_halted_product_wants_no_factories(admin: httpx.AsyncClient, product: str) -> None:
    await submitted(admin)
    await admin.post("/halt", json={"product": product, "reason": "bad release"})

    async def stopped() -> bool:
        result = await looked(admin, **MAC)
        return result["wanted"] == 0 and "bad release" in (result["classes"][0]["stopped"] or "")

    await until(stopped)


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ({"slots": "0"}, "slots"),
        ({"slots": "many"}, "slots"),
        ({"engines": "claude=x"}, "engines"),
        ({"capabilities": "Bad Token"}, "capabilities[0]"),
        ({"minimum": "5", "maximum": "4"}, "minimum"),
        ({"size": "1"}, "size"),
        ({"shapes": "[]", "slots": "2"}, "shapes"),
        ({"shapes": json.dumps([{"slots": 0}])}, "[0].slots"),
        ({"shapes": json.dumps([{"minimum": 2, "maximum": 1}])}, "shapes[0].minimum"),
        ({"factories": "no/way"}, "factories"),
    ],
)
async def test_invalid_scaling_query_names_its_parameter(
    admin: httpx.AsyncClient, query: dict[str, str], place: str
) -> None:
    answer = await admin.get("/scaling", params=query)
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert place in [fault["field"] for fault in answer.json()["faults"]]


async def test_invalid_json_in_shapes_is_malformed(admin: httpx.AsyncClient) -> None:
    answer = await admin.get("/scaling", params={"shapes": "[nothing"})
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed")


async def test_scaling_covers_only_the_products_of_the_token(
    server: Server, admin: httpx.AsyncClient, product: str, worker: Worker
) -> None:
    await submitted(admin, 6)
    viewer = await server.token("vic", Role.VIEWER, [product])
    async with server.client(viewer, product=product) as client:
        assert (await looked(client))["classes"][0]["waiting"] == 6
    stranger = await server.token("sam", Role.VIEWER, ["elsewhere"])
    async with server.client(stranger, product="elsewhere") as client:
        result = await looked(client, **MAC, factories=worker.id)
        assert (result["classes"], result["shapes"][0]["factories"]) == ([], [])
    async with server.client("", product=None) as client:
        assert (await client.get("/scaling")).status_code == 401
