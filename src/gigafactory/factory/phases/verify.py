"""Verify: the quality gate; what fails is handed back to the engine, as often as it may be."""

from gigafactory.domain.job.job import Result
from gigafactory.factory.core.assignment import RunOutcome
from gigafactory.factory.phases.engine import turn
from gigafactory.factory.phases.scope import scope
from gigafactory.factory.run import prompts
from gigafactory.factory.run.run import Run, ShellDone

PRINTED_CHARS_MAX = 20_000


async def verify(run: Run) -> RunOutcome | None:
    """Check the work with the manifest's own command."""
    command = run.assignment.manifest.verify
    if command is None:
        return None
    lasts_s = run.equipment.patience.verify_s
    rounds = run.assignment.manifest.verify_rounds or 1
    for left in range(rounds, -1, -1):
        run.tell(f"verify: {command}")
        done = await run.shell(command, lasts_max_s=lasts_s)
        if done.why == "timeout" and run.left_s > 0:
            reason = f"verify took longer than {lasts_s:g} s (factory.verify-timeout): `{command}`"
            return RunOutcome(result=Result.TIMEOUT, reason=reason)
        if (ended := run.cut_short(done)) is not None:
            return ended
        _note(run, command, done)
        if done.exit_code == 0:
            return None
        if left == 0 or not run.converses:
            break
        run.tell(f"verify failed; the engine is asked to correct it ({left} more)")
        again = await turn(run, prompts.after_verify(command, done.tail)) or await scope(run)
        if again is not None:
            return again
    reason = f"`{command}` ended with {done.exit_code}: {done.tail.strip()[-500:]}"
    return RunOutcome(result=Result.VERIFY_FAILED, reason=reason)


def _note(run: Run, command: str, done: ShellDone) -> None:
    run.findings.verify = {
        "passed": done.exit_code == 0,
        "command": command,
        "exitCode": done.exit_code,
        "seconds": round(done.wall_s, 1),
        "output": done.tail[-PRINTED_CHARS_MAX:],
    }
