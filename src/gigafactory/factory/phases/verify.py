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
    rounds = run.assignment.manifest.verify_rounds
    for left in range(1 if rounds is None else rounds, -1, -1):
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
        again = await run_turn(run, _prompt(run, command, done)) or await check_scope(run)
        if again is not None:
            return again
    printed = done.tail.strip()[-500:]
    reason = f"`{command}` exited with {done.exit_code}" + (f": {printed}" if printed else "")
    return RunOutcome(result=Result.VERIFY_FAILED, reason=reason)


def _prompt(run: ActiveRun, command: str, done: ShellResult) -> str:
    """Return the output of the check; an engine without its session also needs the instructions."""
    failed = prompts.verify_failed_prompt(command, done.tail)
    if run.session is not None:
        return failed
    return prompts.second_prompt(run.assignment.body, run.assignment.follow_ups, failed)


def _record_result(run: ActiveRun, command: str, done: ShellResult) -> None:
    run.findings.verify = {
        "passed": done.exit_code == 0,
        "command": command,
        "exitCode": done.exit_code,
        "seconds": round(done.wall_s, 1),
        "output": done.tail[-PRINTED_CHARS_MAX:],
    }
