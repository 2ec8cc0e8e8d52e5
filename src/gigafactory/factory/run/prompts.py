"""Prompts for engines: the job, requested changes, and the output of a failed verify command."""

from collections.abc import Sequence

FEEDBACK_CHARS_MAX = 20_000
GUIDES = ("AGENTS.md", "CLAUDE.md")
"""Engines that run without the repo's settings do not read these files by themselves."""


def first_prompt(
    body: str, follow_ups: Sequence[str], *, resumed: bool, guides: Sequence[str] = ()
) -> str:
    """Return the instructions of a run; `resumed` means that earlier work is in the worktree.

    `guides` are files of the repo with instructions for agents.
    """
    parts = [body.strip()]
    if guides:
        parts.append(f"How to work on this repo is written in {', '.join(guides)}: read it first.")
    if resumed:
        earlier = "has been looked at" if follow_ups else "was interrupted"
        parts.append(
            f"An earlier run of this job {earlier}. Its work so far is in this working tree:"
            " look at it first (for example with `git status` and `git diff`), then go on from"
            " there, and repeat nothing that is done."
        )
    parts += map(_request, follow_ups)
    return "\n\n".join(part for part in parts if part) + "\n"


def second_prompt(body: str, follow_ups: Sequence[str], failed: str) -> str:
    """Return the prompt of a new session that corrects what the one before has done."""
    there = "You have worked on this before: your work is in this working tree. Keep what is right."
    parts = (body.strip(), *map(_request, follow_ups), there, failed)
    return "\n\n".join(part for part in parts if part)


def _request(text: str) -> str:
    return f"A reviewer asks for this change:\n\n{text.strip()}"


def resume_prompt(follow_ups: Sequence[str]) -> str:
    """Return the prompt for a resumed session, after an interruption or a review."""
    if not follow_ups:
        return "You were interrupted. Look at what is done already, and go on to the end.\n"
    return "\n\n".join(map(_request, follow_ups)) + "\n"


def verify_failed_prompt(command: str, printed: str) -> str:
    """Return the prompt after a failed verify command."""
    return (
        f"The check `{command}` fails on your work. Find the cause, correct it, and make sure that"
        " the check passes. Do not weaken the check itself. This is the end of what it printed:"
        f"\n\n{printed[-FEEDBACK_CHARS_MAX:].strip()}\n"
    )
