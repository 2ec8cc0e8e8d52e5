"""`aq insights` as a process against a real fleet."""

from pathlib import Path
from typing import Any

from gigafactory.client import fleet, workers
from gigafactory.client.transport.sync_client import Client
from gigafactory.domain.insights.slo import Objective
from gigafactory.wire.fleet import EngineDoc, HeartbeatDoc
from tests.services.aq import Served, Shell, serving

JOB = "---\nname: fix-login\nengine: claude\n---\n# Fix the login\n"


def work(served: Served) -> None:
    """Enroll a factory and complete the next job."""
    with Client(served.url, served.token) as admin:
        invited = admin.send(fleet.invite(["*"]))
        member = admin.send(fleet.enroll(invited.secret, "mac-1"))
    mine = HeartbeatDoc(
        factory_id="mac-1", instance_id="a", slots=1, engines={"claude": EngineDoc()}
    )
    with Client(served.url, member.token) as factory:
        factory.send(workers.heartbeat(mine))
        grant = factory.send(workers.claim("mac-1", instance_id="a", wait_s=20))
        assert grant is not None
        job, epoch = grant.job.id, grant.lease_epoch
        usage = {"engine": "claude", "tokensIn": 12, "costUsd": "0.5", "estimated": True}
        factory.send(workers.report(job, epoch, {"stage": "building"}))
        factory.send(workers.report(job, epoch, {"stage": "review", "usage": usage}))


def test_insights_command_sums_up_runs_of_the_fleet(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    with serving(shell) as served:
        empty = shell.aq("insights")
        assert empty.err == "nothing has run yet\n"
        assert empty.out.count("not measured") == len(Objective)
        (tmp_path / "fix-login.md").write_text(JOB)
        assert shell.aq("submit", "fix-login.md").code == 0
        work(served)
        of_it: Any = shell.aq("insights", "fix-login", "--by", "job", "--json").json()
        assert [one["costUsd"] for one in of_it["by"]["job"]] == ["0.5"]
        # A duty counts the run, which can take seconds.
        result: Any = None
        while not result or not result["total"]["runs"]:
            result = shell.aq("insights", "--json", "--since", "1d").json()
        assert result["by"].keys() == {"engine", "profile", "repo", "day"}
        assert result["total"]["firstPass"] == 1.0
        shown = shell.aq("insights", "--by", "engine").out
        assert "$0.5~" in shown
        heads = "RUNS JOBS SHIPPED ESCAPED FIRST PASS WAIT TOKENS COST A SHIPPED ONE TIME RESULTS"
        assert heads in " ".join(shown.split())
        assert "100%" in shown
        assert "all work  not enough runs: two engines with 20 first attempts each" in shown
        assert "the first run of a job comes out well, 70 % of the time" in shown
        alone = shell.aq("insights", "fix-login").out
        assert ("SHIPPED" in alone, "OBJECTIVE" in alone, "FOR" in alone) == (False, False, False)
        assert shell.aq("insights", "--by", "job").code == 1
        assert shell.aq("insights", "nobody").code != 0
