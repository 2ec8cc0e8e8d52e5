"""Setup phase: prepares the worktree before the engine starts."""

from pathlib import Path

from gigafactory.domain.job.job import Result
from gigafactory.factory.core.assignment import RunOutcome
from gigafactory.factory.run.active_run import ActiveRun

LOCK_FILES = (
    ("pnpm-lock.yaml", "pnpm install --frozen-lockfile --prefer-offline"),
    ("package-lock.json", "npm ci --prefer-offline --no-audit --no-fund"),
    ("yarn.lock", "yarn install --frozen-lockfile --prefer-offline"),
    ("uv.lock", "uv sync --frozen"),
    ("poetry.lock", "poetry install --no-interaction"),
    ("Cargo.lock", "cargo fetch --locked"),
    ("go.sum", "go mod download"),
    ("Gemfile.lock", "bundle install"),
)
"""Commands of `setup: auto` for lock files at the top of the repo."""
REPO_SETUP = Path(".aq/setup")


async def run_setup(run: ActiveRun) -> RunOutcome | None:
    """Run the setup commands in the worktree."""
    lasts_s = run.equipment.timeouts.setup_s
    for command in setup_commands(run.assignment.manifest.setup or "auto", run.worktree):
        run.log_line(f"setup: {command}")
        done = await run.run_shell(command, timeout_s=lasts_s)
        if done.reason == "timeout" and run.remaining_s > 0:
            reason = f"setup took longer than {lasts_s:g} s (factory.setup-timeout): `{command}`"
            return RunOutcome(result=Result.TIMEOUT, reason=reason)
        if (ended := run.outcome_if_stopped(done)) is not None:
            return ended
        if done.exit_code != 0:
            printed = done.tail.strip()[-500:]
            reason = f"`{command}` exited with {done.exit_code}: {printed}"
            return RunOutcome(result=Result.SETUP_FAILED, reason=reason)
    return None


def setup_commands(wanted: str, worktree: Path) -> list[str]:
    """Return the setup commands: of the manifest, of the repo, or for its lock files."""
    if wanted == "none":
        return []
    if wanted != "auto":
        return [wanted]
    if (worktree / REPO_SETUP).is_file():
        return [f"./{REPO_SETUP}"]
    return [command for name, command in LOCK_FILES if (worktree / name).is_file()]
