"""Jobs over HTTP: submitting, listing, reading and actions of people."""

import httpx
import pytest

from tests.support.api_server import Server

pytestmark = pytest.mark.asyncio(loop_scope="module")

MARKDOWN = {"content-type": "text/markdown"}
FIELDS = [
    *("id", "name", "productId", "title", "kind", "stage", "result", "reason", "priority", "repo"),
    *("profile", "engine", "capabilities", "deps", "lock", "attempts", "submittedBy", "rev"),
    *("leaseEpoch", "lease", "checkpoint", "parentId", "phase", "createdAt", "updatedAt"),
    *("stageSince", "notBefore", "flags", "actions"),
]


async def submitted(client: httpx.AsyncClient, name: str, **manifest: object) -> dict[str, object]:
    answer = await client.post(
        "/jobs", json={"manifest": {"name": name, **manifest}, "body": "Do."}
    )
    assert answer.status_code == 201, answer.text
    job: dict[str, object] = answer.json()
    return job


async def test_job_file_becomes_a_queued_job_of_the_chosen_product(
    admin: httpx.AsyncClient, product: str
) -> None:
    text = "---\npriority: high\nrepo: notes\n---\n# Fix the login\n\nIt forgets.\n"
    answer = await admin.post("/jobs?name=fix-login.md", content=text, headers=MARKDOWN)
    assert answer.status_code == 201
    job = answer.json()
    assert list(job) == FIELDS
    expected = {
        "name": "fix-login",
        "productId": product,
        "title": "Fix the login",
        "stage": "queued",
        "priority": "high",
        "repo": "notes",
        "submittedBy": "user:admin",
        "rev": 1,
        "leaseEpoch": 0,
        "lease": None,
    }
    assert {key: job[key] for key in expected} == expected
    assert job["createdAt"].endswith("Z")
    assert len(job["createdAt"]) == len("2026-01-01T12:00:00.000Z")


async def test_resubmission_under_one_key_returns_the_existing_job(
    admin: httpx.AsyncClient,
) -> None:
    document = {"manifest": {"name": "once", "idempotencyKey": "ticket-7"}, "body": "Do."}
    first = await admin.post("/jobs", json=document)
    again = await admin.post("/jobs", json=document)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]


async def test_batch_jobs_may_depend_on_each_other_in_any_order(
    admin: httpx.AsyncClient,
) -> None:
    jobs = [
        {"manifest": {"name": "second", "deps": ["first"]}, "body": "Then."},
        {"manifest": {"name": "first"}, "body": "First."},
    ]
    answer = await admin.post("/jobs", json={"jobs": jobs})
    assert answer.status_code == 201
    second, first = answer.json()["jobs"]
    assert (second["stage"], second["deps"]) == ("blocked", [first["id"]])
    assert first["stage"] == "queued"


async def test_several_jobs_are_fetched_by_their_ids(server: Server, product: str) -> None:
    token = await server.factory_token(f"asks-{product}", [product])
    async with (
        server.client(product=product) as admin,
        server.client(token, product=None) as factory,
    ):
        one, two = [str((await submitted(admin, name))["id"]) for name in ("seen-1", "seen-2")]
        other = await admin.post(
            "/jobs", json={"manifest": {}, "body": "x"}, headers={"x-product-id": "elsewhere"}
        )
        asked = ",".join([two, one, "unknown", other.json()["id"]])
        data = (await factory.get("/jobs", params={"id": asked})).json()
        assert [job["id"] for job in data["jobs"]] == [one, two], "of its products alone"
        assert data["nextCursor"] is None
        wrong = await factory.get("/jobs", params={"id": one, "stage": "queued"})
        assert (wrong.status_code, wrong.json()["faults"][0]["field"]) == (422, "id")
        many = await factory.get("/jobs", params={"id": ",".join(["a"] * 101)})
        assert many.status_code == 422


async def test_one_invalid_job_rejects_the_whole_batch(admin: httpx.AsyncClient) -> None:
    jobs = [{"manifest": {"name": "good"}}, {"manifest": {"name": "bad", "priority": "urgent"}}]
    answer = await admin.post("/jobs", json={"jobs": jobs})
    assert answer.status_code == 422
    assert [fault["field"] for fault in answer.json()["faults"]] == ["jobs[1].priority"]
    assert (await admin.get("/jobs")).json()["jobs"] == []


async def test_job_is_found_by_id_and_by_name_in_its_product(
    server: Server, admin: httpx.AsyncClient, product: str
) -> None:
    job = await submitted(admin, "fix-login")
    assert (await admin.get(f"/jobs/{job['id']}")).json() == job
    assert (await admin.get("/jobs/fix-login")).json() == job
    async with server.client(product=f"{product}-other") as elsewhere:
        assert (await elsewhere.get("/jobs/fix-login")).status_code == 404


async def test_include_adds_manifest_body_and_events(admin: httpx.AsyncClient) -> None:
    text = "---\nname: a\ntimeout: 4h\nbudget: {usd: 2.50}\n---\n# A\r\n\nexactly as *written*\n"
    await admin.post("/jobs", content=text, headers=MARKDOWN)
    job = (await admin.get("/jobs/a?include=manifest,body,events")).json()
    assert job["body"] == "# A\r\n\nexactly as *written*\n"
    assert job["manifest"]["timeout"] == "4h"
    assert job["manifest"]["budget"] == {"usd": "2.5"}
    assert [event["type"] for event in job["events"]] == ["submitted"]
    assert "manifest" not in (await admin.get("/jobs/a")).json()


async def test_pages_list_jobs_newest_first_without_gap_or_repeat(
    admin: httpx.AsyncClient,
) -> None:
    names = [(await submitted(admin, f"job-{number}"))["name"] for number in range(7)]
    seen: list[str] = []
    cursor: str | None = None
    while True:
        query = {"limit": "3"} | ({"cursor": cursor} if cursor else {})
        page = (await admin.get("/jobs", params=query)).json()
        seen += [job["name"] for job in page["jobs"]]
        await submitted(admin, f"later-{len(seen)}")
        cursor = page["nextCursor"]
        if cursor is None:
            break
    assert seen == names[::-1]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("stage=queued", ["b", "a"]),
        ("stage=blocked,cancelled", ["c"]),
        ("repo=notes", ["a"]),
        ("priority=high", ["b"]),
        ("engine=codex", ["b"]),
        ("text=lovely", ["c"]),
        ("sort=oldest", ["a", "b", "c"]),
        ("sort=oldest&limit=1", ["a"]),
        ("factory=mac-1", []),
    ],
)
async def test_lists_are_filtered_and_sorted(
    admin: httpx.AsyncClient, query: str, found: list[str]
) -> None:
    await submitted(admin, "a", repo="notes")
    await submitted(admin, "b", priority="high", engine="codex")
    await submitted(admin, "c", title="A lovely thing", deps=["a"])
    answer = await admin.get(f"/jobs?{query}")
    assert [job["name"] for job in answer.json()["jobs"]] == found


async def test_a_list_shows_only_the_chosen_product(
    server: Server, admin: httpx.AsyncClient, product: str
) -> None:
    await submitted(admin, "here")
    other = f"{product}-other"
    async with server.client(product=other) as elsewhere:
        await submitted(elsewhere, "there")
        assert [job["name"] for job in (await elsewhere.get("/jobs")).json()["jobs"]] == ["there"]
    both = await server.token("ann", products=[product, other])
    async with server.client(both, product=None) as everywhere:
        assert len((await everywhere.get("/jobs")).json()["jobs"]) == 2


async def test_users_cancel_and_requeue_a_job(admin: httpx.AsyncClient) -> None:
    await submitted(admin, "a")
    cancelled = await admin.post("/jobs/a/actions/cancel", json={"reason": "not needed"})
    assert (cancelled.status_code, cancelled.json()["stage"]) == (200, "cancelled")
    requeued = await admin.post("/jobs/a/actions/requeue")
    assert (requeued.status_code, requeued.json()["stage"]) == (200, "queued")


async def test_illegal_action_names_both_stages(
    admin: httpx.AsyncClient,
) -> None:
    await submitted(admin, "a")
    answer = await admin.post("/jobs/a/actions/ship")
    assert (answer.status_code, answer.json()["code"]) == (409, "illegal_transition")
    assert "is queued and cannot become shipped" in answer.json()["detail"]


async def test_unknown_action_lists_the_known_ones(
    admin: httpx.AsyncClient,
) -> None:
    await submitted(admin, "a")
    answer = await admin.post("/jobs/a/actions/explode")
    assert answer.status_code == 404
    assert "approve, reject" in answer.json()["detail"]


async def test_a_waiting_job_is_explained(admin: httpx.AsyncClient) -> None:
    await submitted(admin, "a", capabilities=["has:xcode"])
    data = (await admin.get("/jobs/a/explain")).json()
    assert data["answer"] == "not_yet"
    assert data["summary"]
    assert (await admin.get("/jobs/a")).json()["flags"] == ["unroutable"]
