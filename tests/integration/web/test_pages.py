"""Home, job list, roadmap, budget, insights and settings pages."""

import re

import httpx
import pytest

from gigafactory.coordinator.insights.routing import RoutingAdvice
from gigafactory.domain.insights.effect_estimate import EffectEstimate
from gigafactory.domain.insights.observation import RoutingChoice
from gigafactory.domain.insights.recommendation import Recommendation
from gigafactory.domain.insights.slo import Objective
from gigafactory.domain.job.job import Stage
from gigafactory.domain.tenancy.access import Caller, Role
from tests.support.api_server import SYSTEM, Server, Worker, a_worker
from tests.support.jobs_api import a_child, a_roadmap, claim_report, submit_job
from tests.support.web_session import Visitor, a_visitor


async def spent(worker: Worker, usd: str) -> None:
    usage = {"engine": "claude", "costUsd": usd, "tokensIn": 9}
    reports = ({"stage": "building"}, {"usage": usage}, {"stage": "review", "result": "ok"})
    await claim_report(worker, *reports)


async def test_empty_filters_are_ignored(ann: Visitor, admin: httpx.AsyncClient) -> None:
    for name in ("paint-door", "mow-lawn"):
        await submit_job(admin, {"manifest": {"name": name}, "body": f"# {name}"})
    form = "/jobs?q={}&stage={}&priority=&repo=&engine="
    everything = await ann.page(form.format("", ""))
    assert ("paint-door" in everything, "mow-lawn" in everything) == (True, True)
    some = await ann.page(form.format("paint", "queued"))
    assert ("paint-door" in some, "mow-lawn" in some) == (True, False)
    assert 'data-live="/live/jobs?stage=queued&amp;q=paint"' in some
    await ann.page(form.format("", "nonsense"), 422)


async def test_roadmap_page_draws_the_dag(ann: Visitor, admin: httpx.AsyncClient) -> None:
    plan = (a_child("page"), a_child("guide", deps=["page"]), a_child("later", phase=2))
    roadmap = await submit_job(admin, a_roadmap(*plan))
    text = await ann.page(f"/jobs/{roadmap['id']}/roadmap")
    assert text.count('class="box ') == 3
    assert 'class="arrow dep"' in text
    assert "0 of 3 shipped" in text
    assert f"/jobs/{roadmap['id']}/roadmap" in await ann.page(f"/jobs/{roadmap['id']}")


async def test_roadmap_page_draws_200_jobs(ann: Visitor, admin: httpx.AsyncClient) -> None:
    plan = [a_child(f"c-{n}", deps=[f"c-{n // 2}"] if n else []) for n in range(200)]
    roadmap = await submit_job(admin, a_roadmap(*plan))
    text = await ann.page(f"/jobs/{roadmap['id']}/roadmap")
    assert text.count('class="box ') == 200


async def test_job_page_draws_dependencies_and_dependents(
    ann: Visitor, admin: httpx.AsyncClient
) -> None:
    ids = {}
    for name, deps in (("dig", []), ("pour", ["dig"]), ("build", ["pour"]), ("apart", [])):
        document: dict[str, object] = {
            "manifest": {"name": name, "deps": deps},
            "body": f"# {name} it",
        }
        ids[name] = (await submit_job(admin, document))["id"]
    text = await ann.page(f"/jobs/{ids['pour']}")
    assert "Waits for: 1. Dependents: 1." in text
    drawn = text[text.index('class="dag"') : text.index("</svg>")]
    assert [name in drawn for name in ("dig it", "pour it", "build it")] == [True] * 3
    assert drawn.count('class="arrow dep"') == 2
    assert drawn.count('aria-current="true"') == 1
    assert 'class="dag"' not in await ann.page(f"/jobs/{ids['apart']}")


async def test_composite_page_draws_children_and_reports_truncation(
    ann: Visitor, admin: httpx.AsyncClient
) -> None:
    roadmap = await submit_job(admin, a_roadmap(*(a_child(f"c-{n}") for n in range(30))))
    text = await ann.page(f"/jobs/{roadmap['id']}")
    assert text.count('class="box ') == 24
    assert "Not all are shown." in text
    assert "/actions/approve" not in text, "no phase waits"
    assert "/actions/cancel" in text
    after: dict[str, object] = {"manifest": {"name": "x", "deps": ["roadmap"]}, "body": "# X"}
    await submit_job(admin, after)
    text = await ann.page(f"/jobs/{roadmap['id']}")
    assert (text.count('class="box '), text.count('class="arrow part"')) == (26, 24)


async def test_review_shows_approvals_and_quorum(
    server: Server, ann: Visitor, admin: httpx.AsyncClient, worker: Worker
) -> None:
    people = {"reviewers": ["ann", "bob"], "quorum": 2}
    document: dict[str, object] = {
        "manifest": {"name": "two", "reviewPolicy": people},
        "body": "# Two",
    }
    job_id = (await submit_job(admin, document))["id"]
    place = f"/jobs/{job_id}"
    grant = await worker.granted()
    await worker.report(grant, stage="building")
    used = {"engine": "claude", "turns": 17, "tokensIn": 1200, "tokensOut": 34, "costUsd": "0.5"}
    await worker.report(grant, usage=used)
    at = {"branch": "aq/job/two", "commit": "c0ffee" * 7}
    await worker.report(grant, stage="review", result="ok", checkpoint=at)
    text = await ann.page(place)
    assert "0 of 2 approvals" in text
    for result in ("<td>17</td>", "1,200 in, 0 cached, 34 out", "$0.5", "aq/job/two"):
        assert result in text
    commit = "c0ffee" * 7
    assert f'name="commit" value="{commit}"' in text
    home = await ann.page("/")
    assert f'name="commit" value="{commit}"' in home, "the list carries what it shows"
    assert f'data-commit="{commit}"' in await ann.page("/jobs"), "so do bulk actions"
    assert (await ann.send(f"{place}/actions/approve")).status_code == 422
    moved = await ann.send(f"{place}/actions/approve", commit="0dd")
    assert (moved.status_code, "changed since you looked" in moved.text) == (409, True)
    bulk = {"action": "approve", "jobs": f"{job_id}@0dd"}
    assert "changed since you looked" in (await ann.send("/jobs/actions", **bulk)).text
    assert "is missing" in (await ann.send("/jobs/actions", action="approve", jobs=job_id)).text
    bulk = {"action": "approve", "jobs": f"{job_id}@{commit}"}
    assert (await ann.send("/jobs/actions", **bulk)).status_code == 303
    async with a_visitor(server, "vera", Role.VIEWER) as vera:
        assert "<strong>1 of 2 approvals</strong>: ann" in await vera.page(place)


async def test_jobs_failed_for_one_reason_share_a_card_and_a_requeue(
    server: Server, ann: Visitor, admin: httpx.AsyncClient, worker: Worker
) -> None:
    for n in range(4):
        await submit_job(admin, {"manifest": {"name": f"j-{n}"}, "body": f"# Job {n}"})
        grant = await worker.granted()
        await worker.report(grant, stage="building")
        bad = {"result": "crash", "reason": "the disk is full"}
        assert (await worker.report(grant, stage="failed", **bad)).status_code == 200
    text = await ann.page("/")
    assert "4 jobs: failed" in text
    assert text.count("<p>the disk is full</p>") == 1
    assert [f">Job {n}</a>" in text for n in range(4)] == [True] * 4
    ids = re.search(r'name="jobs" value="([^"]+)"', text)
    assert ids is not None
    async with a_visitor(server, "vera", Role.VIEWER) as vera:
        assert "Requeue" not in await vera.page("/")
    done = await ann.send("/jobs/actions", action="requeue", jobs=ids[1], back="/")
    assert (done.status_code, done.headers["location"]) == (303, "/")
    assert "the disk is full" not in await ann.page("/")


async def test_each_attention_item_has_an_action_or_a_link(
    server: Server, ann: Visitor, admin: httpx.AsyncClient, worker: Worker
) -> None:
    assert (await ann.send("/budget/notes", ceiling="5")).status_code == 303
    await submit_job(admin, {"manifest": {"name": "costly"}, "body": "# Costly"})
    await spent(worker, "4.9")
    signed_out = {"claude": {"seats": 1, "unavailable": "not signed in"}}
    await worker.beat(engines=signed_out)
    strange: dict[str, object] = {"manifest": {"capabilities": ["has:figma"]}, "body": "# A logo"}
    logo = (await submit_job(admin, strange))["id"]
    text = await ann.page("/")
    found = re.findall(r'<li class="card (?:turn|fault)".*?</li>', text, re.DOTALL)
    cards = {
        kind: card
        for card in found
        for kind in re.findall(r'<p class="facts">([a-z_ ]+?)(?: ·|<)', card)
    }
    for kind, way in (
        ("review", "/actions/approve"),
        ("budget", 'href="/budget"'),
        ("engine unavailable", 'href="/fleet#mac-1"'),
        ("unroutable", f"/jobs/{logo}/actions/cancel"),
    ):
        assert way in cards[kind], kind
    assert (
        text.index('aria-label="Attention"') < text.index("c-working") < text.index('id="glance"')
    )
    async with a_visitor(server, "vera", Role.VIEWER) as vera:
        assert "/actions/" not in await vera.page("/")


async def test_preview_explains_why_not_another_factory(
    server: Server, ann: Visitor, worker: Worker
) -> None:
    async with a_worker(server, "linux-2") as other:
        await other.beat(capabilities=["os:linux"], engines={})
        job = "---\nname: x\ncapabilities: [os:mac]\n---\n# Do it\n"
        text = (await ann.send("/new/check", text=job)).text
        assert f"would run now on <strong>{worker.id}</strong>" in text
        against = text[text.index("<details>") :]
        assert "Why not another factory" in against
        assert "linux-2: " in against
        # The check uses the current state of the fleet, not a stored one.
        await ann.send(f"/fleet/{worker.id}/drain")
        assert "would run now" not in (await ann.send("/new/check", text=job)).text


async def test_budget_is_set_shown_paused_and_resumed(
    server: Server, ann: Visitor, admin: httpx.AsyncClient, worker: Worker
) -> None:
    await submit_job(admin, {"manifest": {"name": "costly"}, "body": "# Costly"})
    assert "No budget is set, so no spending is booked" in await ann.page("/budget")
    assert (await ann.send("/budget/notes", ceiling="10", period="day")).status_code == 303
    await spent(worker, "4.5")
    text = await ann.page("/budget")
    assert "$4.5 of $10 today" in text
    assert 'class="limit"' in text
    await tallied(server)
    text = await ann.page("/budget")
    for group in ("notes", "claude", "none", f"{server.coordinator.clock.now():%Y-%m-%d}"):
        assert f'<th scope="row">{group}</th><td>$4.5</td><td>1</td>' in text, group
    assert (await ann.send("/budget/notes/pause", reason="ask finance")).status_code == 303
    assert "ask finance" in await ann.page("/budget")
    assert (await ann.send("/budget/notes/resume")).status_code == 303
    assert "ask finance" not in await ann.page("/budget")
    for wrong in ("NaN", "-1", "lots", "1"):
        assert (await ann.send("/budget/notes", ceiling=wrong)).status_code == 422
    assert (await ann.send("/budget/notes", ceiling="")).status_code == 303
    assert "spent, no ceiling." in await ann.page("/budget")


async def tallied(server: Server) -> None:
    await server.coordinator.leadership.acquire()
    await server.coordinator.index.catch_up()
    await server.coordinator.tallier.step()


async def test_insights_show_results_of_runs(
    server: Server, ann: Visitor, admin: httpx.AsyncClient, worker: Worker
) -> None:
    empty = await ann.page("/insights")
    assert "No run has ended" in empty
    assert empty.count("not measured") == len(Objective), "no number is made up"
    job = await submit_job(
        admin, {"manifest": {"name": "costly", "ship": "none"}, "body": "# Costly"}
    )
    await spent(worker, "4.5")
    for action in ("approve", "ship"):
        assert (await ann.send(f"/jobs/{job['id']}/actions/{action}")).status_code == 303
    await tallied(server)
    text = await ann.page("/insights?days=7")
    result = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))
    for words in (
        *("Shipped 1 Runs 1 of 1 jobs First pass 100% of 1", "Cost per shipped job $4.5"),
        *("0 of 1 failed, of the last 30 days", "Not enough runs: two engines with 20"),
        "the first run of a job comes out well, 70 % of the time 100%",
        *("Routing recommendations", "Nothing is clearly better"),
    ):
        assert words in result, words
    assert "claude: 100%" in text
    for by, name in (("engine", "claude"), ("profile", "none"), ("repo", "none")):
        rows = text[text.index(f'id="by-{by}"') :].partition("</table>")[0]
        heads = re.findall(r'<th scope="col">([^<]+)<', rows)
        assert heads[1:] == [
            *("Shipped", "Runs", "First pass", "Cost", "Per shipped job", "Time per run", "Wait")
        ]
        assert f'<th scope="row">{name}</th><td>1</td><td>1</td>' in rows, by
        assert "<td>$4.5</td><td>$4.5</td>" in rows, by
    rows = text[text.index('id="by-factory"') :].partition("</table>")[0]
    assert f'<th scope="row">{worker.id}</th><td>0</td><td>1</td>' in rows, "it pushed nothing"
    assert 'class="bar-mark"' in text


async def test_insights_charts_show_the_chosen_measure(
    server: Server, ann: Visitor, admin: httpx.AsyncClient, worker: Worker
) -> None:
    expensive: dict[str, object] = {
        "manifest": {"name": "costly", "repo": "notes"},
        "body": "# Costly",
    }
    await submit_job(admin, expensive)
    await spent(worker, "4.5")
    await tallied(server)
    for show, result in (
        ("shipped", "none: 0"),
        ("runs", "claude: 1"),
        ("cost", "No data yet"),
        ("time", "s<"),
        ("wait", "notes: 0 s"),
    ):
        assert result in await ann.page(f"/insights?show={show}"), show
    text = await ann.page("/insights")
    advised = text[text.index("For each repo") :]
    assert '<th scope="row">notes</th><td></td><td>1</td>' in advised
    assert (
        "Not enough runs: two engines with 20 first attempts each are needed, found claude 1."
        in (advised)
    )
    assert "For each profile" not in text, "there is none"
    await ann.page("/insights?show=nonsense", 422)


async def test_insights_show_routing_recommendations(
    ann: Visitor,
    server: Server,
    admin: httpx.AsyncClient,
    worker: Worker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await submit_job(admin, {"manifest": {"name": "costly"}, "body": "# Costly"})
    await spent(worker, "4.5")
    await tallied(server)
    better = Recommendation(
        product="notes",
        repo="notes",
        profile=None,
        choice=RoutingChoice("claude", "mac-1"),
        tries=64,
        others=180,
        success=EffectEstimate(0.1, 0.05, 0.15, sure=True),
        time=EffectEstimate(-0.2, -0.3, -0.1, sure=True),
        cost=None,
    )

    async def advise(_: Caller) -> RoutingAdvice:
        return RoutingAdvice(rollouts=(), tries=244, recommended=(better,))

    monkeypatch.setattr(server.coordinator.routing, "advise", advise)
    text = await ann.page("/insights")
    result = text[text.index('id="routing"') :]
    assert f"<li>{better.sentence[:1].upper()}{better.sentence[1:]}.</li>" in result
    assert "learned from 244 first attempts" in result


async def test_learned_routing_is_switched_on_and_off(
    server: Server, ann: Visitor, admin: httpx.AsyncClient
) -> None:
    await submit_job(admin, {"manifest": {"name": "one"}, "body": "# One"})
    place = "/insights/routing/notes"
    assert f'action="{place}"' in await ann.page("/insights")
    assert (await ann.send(place, mode="shadow")).status_code == 303
    assert "<option selected>shadow</option>" in await ann.page("/insights")
    [rollout] = (await admin.get("/routing")).json()["rollouts"]
    assert (rollout["productId"], rollout["mode"]) == ("notes", "shadow")
    assert (await ann.send(place, mode="off")).status_code == 303
    assert "<option selected>off</option>" in await ann.page("/insights")
    assert (await ann.send(place, mode="nonsense")).status_code == 422
    async with a_visitor(server, "vera", Role.VIEWER) as vera:
        assert place not in await vera.page("/insights")
        assert (await vera.send(place, mode="on")).status_code == 403


async def test_board_has_a_column_per_stage_and_applies_filters(
    ann: Visitor, admin: httpx.AsyncClient, worker: Worker
) -> None:
    for name in ("first", "second"):
        await submit_job(admin, {"manifest": {"name": name}, "body": f"# The {name}"})
    await worker.report(await worker.granted(), stage="building")
    text = await ann.page("/jobs?view=board")
    columns = dict(re.findall(r'id="b-(\w+)">.*?<ul>(.*?)</ul>', text, re.DOTALL))
    assert list(columns) == list(Stage)
    assert ("The first" in columns["building"], "The second" in columns["queued"]) == (True, True)
    held = await ann.page(f"/jobs?view=board&factory={worker.id}")
    assert ("The first" in held, "The second" in held) == (True, False)


async def test_tokens_are_created_shown_once_and_revoked(ann: Visitor, server: Server) -> None:
    made = await ann.send("/settings/tokens", user="bob", role="reviewer")
    assert made.status_code == 200
    assert "gfo_" in made.text
    text = await ann.page("/settings")
    assert "gfo_" not in text
    [bob] = [
        token.id for token in await server.coordinator.tokens.all(SYSTEM) if token.user == "bob"
    ]
    assert (await ann.send("/settings/tokens/revoke", token=bob)).status_code == 303
    assert bob not in await ann.page("/settings")
    assert (await ann.send("/settings/tokens", user="bad name!")).status_code == 422


async def test_viewer_cannot_change_tokens_and_budgets(server: Server) -> None:
    async with a_visitor(server, "vera", Role.VIEWER) as vera:
        assert (await vera.send("/settings/tokens", user="eve", role="admin")).status_code == 403
        assert (await vera.send("/budget/notes/pause")).status_code == 403
