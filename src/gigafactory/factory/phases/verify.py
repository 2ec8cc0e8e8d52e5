"""Verify phase: the quality gate; failures go back to the engine for a limited number of rounds."""

from gigafactory.domain.job.job import Result
from gigafactory.factory.core.assignment import RunOutcome
from gigafactory.factory.phases.engine import run_turn
from gigafactory.factory.phases.scope import check_scope
from gigafactory.factory.run import prompts
from gigafactory.factory.run.active_run import ActiveRun, ShellResult

PRINTED_CHARS_MAX = 20_000


async def run_verify(run: ActiveRun) -> RunOutcome | None:
    """Run the verify command of the manifest; let the engine fix failures."""
    command = run.assignment.manifest.verify
    if command is None:
        return None
    lasts_s = run.equipment.timeouts.verify_s
    rounds = run.assignment.manifest.verify_rounds or 1
    for left in range(rounds, -1, -1):
        run.log_line(f"verify: {command}")
        done = await run.run_shell(command, timeout_s=lasts_s)
        if done.reason == "timeout" and run.remaining_s > 0:
            reason = f"verify took longer than {lasts_s:g} s (factory.verify-timeout): `{command}`"
            return RunOutcome(result=Result.TIMEOUT, reason=reason)
        if (ended := run.outcome_if_stopped(done)) is not None:
            return ended
        _record_result(run, command, done)
        if done.exit_code == 0:
            return None
        if left == 0 or not run.can_follow_up:
            break
        run.log_line(f"verify failed; the engine is asked to fix it ({left} more)")
        again = await run_turn(
            run, prompts.verify_failed_prompt(command, done.tail)
        ) or await check_scope(run)
        if again is not None:
            return again
    reason = f"`{command}` exited with {done.exit_code}: {done.tail.strip()[-500:]}"
    return RunOutcome(result=Result.VERIFY_FAILED, reason=reason)


def _record_result(run: ActiveRun, command: str, done: ShellResult) -> None:
    run.findings.verify = {
        "passed": done.exit_code == 0,
        "command": command,
        "exitCode": done.exit_code,
        "seconds": round(done.wall_s, 1),
        "output": done.tail[-PRINTED_CHARS_MAX:],
    }
