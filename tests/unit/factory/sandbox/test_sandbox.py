"""Sandbox rules that can be tested without starting a program."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from gigafactory.domain.manifest.manifest import Sandbox as Policy
from gigafactory.factory.process.spawn import EXTRA_INPUT, CannotStart, Program
from gigafactory.factory.run.failure import outcome_of_exception
from gigafactory.factory.sandbox.bubblewrap import KERNEL_VIEW, Bubblewrap, options
from gigafactory.factory.sandbox.filesystem import Mount, access_of
from gigafactory.factory.sandbox.probe import Exposure, evaluate
from gigafactory.factory.sandbox.sandbox import SWITCHED_OFF, Sandbox, SandboxUnavailable, stricter
from gigafactory.factory.sandbox.seatbelt import Seatbelt, profile

MARK = "0123456789abcdef0123456789abcdef"
WORK, HOME, GIT = Path("/f/w"), Path("/f"), Path("/f/w/.git")
SEEN = (Mount(HOME, "none"), Mount(WORK, "write"), Mount(GIT, "read"))


def a_program(cwd: Path, *argv: str) -> Program:
    return Program(
        argv=argv or ("/bin/sh", "-c", "true"),
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin", "KEY": "hush-hush"},
        mark=MARK,
        stdin=b"prompt",
    )


class Remembering:
    """A sandbox tool that only records its arguments."""

    own_network = False

    def __init__(self) -> None:
        self.seen: Sequence[Mount] = ()
        self.network = True

    def wrap(self, program: Program, seen: Sequence[Mount], *, network: bool) -> Program:
        self.seen, self.network = seen, network
        return msgspec.structs.replace(program, is_wrapper=True)


@pytest.mark.parametrize(
    ("one", "other", "held_to"),
    [
        ("none", None, "none"),
        ("none", "workspace", "workspace"),
        ("strict", "none", "strict"),
        ("workspace", "strict", "strict"),
        ("workspace", "workspace", "workspace"),
    ],
)
def test_stricter_of_two_policies_applies(
    one: Policy, other: Policy | None, held_to: Policy
) -> None:
    assert stricter(one, other) == held_to


def test_bubblewrap_gets_options_and_environment_over_a_descriptor() -> None:
    wrapped = Bubblewrap("/usr/bin/bwrap").wrap(a_program(WORK), SEEN, network=True)
    assert wrapped.argv == ("/usr/bin/bwrap", "--args", EXTRA_INPUT, "--", "/bin/sh", "-c", "true")
    assert (wrapped.env, wrapped.stdin, wrapped.mark) == ({}, b"prompt", MARK)
    assert wrapped.is_wrapper
    assert b"--setenv\0KEY\0hush-hush\0" in (wrapped.extra_input or b"")
    assert f"--setenv\0AQ_RUN\0{MARK}".encode() in (wrapped.extra_input or b"")


def test_bubblewrap_options_mount_each_place_with_its_access() -> None:
    assert options(SEEN, env={"B": "2", "A": "1"}, cwd=WORK, network=False) == [
        *("--unshare-all", "--unshare-user", "--disable-userns"),
        *("--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"),
        *KERNEL_VIEW,
        *(
            "--size",
            "268435456",
            "--tmpfs",
            "/f",
            "--bind",
            "/f/w",
            "/f/w",
            "--ro-bind",
            "/f/w/.git",
            "/f/w/.git",
        ),
        *("--remount-ro", "/"),
        *("--setenv", "A", "1", "--setenv", "B", "2"),
        *("--chdir", "/f/w"),
    ]


def test_bubblewrap_shows_nothing_of_the_machine_by_itself() -> None:
    words = " ".join(options((), env={}, cwd=WORK, network=True))
    assert "--ro-bind / /" not in words
    assert "--dev /dev --proc /proc --ro-bind-try " in words
    assert "--ro-bind-try /proc/sys /proc/sys" in words
    assert words.endswith("--remount-ro / --chdir /f/w")


def test_a_link_is_made_again() -> None:
    place = Mount(Path("/lib"), "link", is_folder=False, target="usr/lib")
    assert "--symlink usr/lib /lib" in " ".join(options([place], env={}, cwd=WORK, network=True))
    assert "/lib" not in profile([place], network=True)


def test_bubblewrap_shares_the_network_only_when_allowed() -> None:
    assert "--share-net" in options((), env={}, cwd=WORK, network=True)
    assert "--share-net" not in options((), env={}, cwd=WORK, network=False)


def test_hidden_file_is_mounted_as_empty() -> None:
    words = options(
        [Mount(Path("/f/token"), "none", is_folder=False)], env={}, cwd=WORK, network=True
    )
    assert " ".join(words).count("--ro-bind /dev/null /f/token") == 1


def test_macos_profile_lists_each_place_after_its_parents() -> None:
    rules = profile(SEEN, network=False).splitlines()
    assert rules[:5] == [
        "(version 1)",
        "(allow default)",
        "(deny file-read* file-write*)",
        "(allow file-read-metadata)",
        '(allow file-read* (literal "/") (subpath "/dev"))',
    ]
    assert rules[-6:] == [
        '(deny file-read* file-write* (subpath "/f"))',
        '(allow file-read-metadata (subpath "/f"))',
        '(allow file-read* file-write* (subpath "/f/w"))',
        '(allow file-read* (subpath "/f/w/.git"))',
        '(deny file-write* (subpath "/f/w/.git"))',
        "(deny network*)",
    ]
    assert "(deny network*)" not in profile(SEEN, network=True)


def test_file_name_cannot_add_a_rule_to_the_profile() -> None:
    nasty = Mount(Path('/f/a") (allow default) ("\\'), "read", is_folder=False)
    assert '(literal "/f/a\\") (allow default) (\\"\\\\")' in profile([nasty], network=True)


def test_macos_wrapper_keeps_program_and_environment() -> None:
    wrapped = Seatbelt().wrap(a_program(WORK), SEEN, network=True)
    assert wrapped.argv[-3:] == ("/bin/sh", "-c", "true")
    assert wrapped.env == a_program(WORK).env


async def confined(
    sandbox: Sandbox,
    program: Program,
    *,
    writable: Sequence[Path] = (),
    readable: Sequence[Path] = (),
    policy: Policy | None = None,
) -> Program:
    async with sandbox.confine(
        program, writable=writable, readable=readable, policy=policy
    ) as found:
        return found


async def test_factory_policy_overrides_a_weaker_one_of_the_job(tmp_path: Path) -> None:
    tool = Remembering()
    program = a_program(tmp_path)
    wrapped = await confined(Sandbox(tool, "strict"), program, writable=[tmp_path], policy="none")
    assert wrapped.is_wrapper
    assert not tool.network


async def test_job_can_request_a_stricter_policy(tmp_path: Path) -> None:
    tool = Remembering()
    program = a_program(tmp_path)
    await confined(Sandbox(tool, "none"), program, writable=[tmp_path], policy="workspace")
    assert tool.network
    assert access_of(tmp_path / "x", tool.seen) == "write"
    assert access_of(Path("/root") / ".ssh", tool.seen) == "none"
    assert access_of(Path("/usr/bin/git"), tool.seen) == "read"


async def test_program_is_not_wrapped_without_a_policy(tmp_path: Path) -> None:
    program = a_program(tmp_path)
    assert await confined(Sandbox(None, "none"), program, writable=[tmp_path]) is program


async def test_job_that_requests_an_unavailable_sandbox_is_rejected(tmp_path: Path) -> None:
    none = Sandbox(None, "none", missing={"strict": "it is switched off"})
    with pytest.raises(
        SandboxUnavailable, match=r"asks for the sandbox 'strict', .*: it is switched off"
    ):
        await confined(none, a_program(tmp_path), policy="strict")


def test_job_without_its_sandbox_is_released_without_blaming_the_engine() -> None:
    outcome = outcome_of_exception("worktree", SandboxUnavailable("the job asks for 'strict'"))
    assert (outcome.result, outcome.reason) == ("released", "worktree: the job asks for 'strict'")


def test_only_policies_that_do_not_hold_are_rejected() -> None:
    sandbox = Sandbox(Remembering(), "workspace", missing={"strict": "no network of its own"})
    assert sandbox.policies == ("none", "workspace")
    assert (sandbox.policy_for("none"), sandbox.policy_for(None)) == ("workspace", "workspace")
    with pytest.raises(SandboxUnavailable, match="no network of its own"):
        sandbox.policy_for("strict")


@pytest.mark.parametrize("tool", [None, Remembering()], ids=["missing", "broken"])
def test_a_yolo_job_is_refused_where_no_sandbox_works(tool: Remembering | None) -> None:
    none = Sandbox(tool, "none", missing={"workspace": "it leaks", "strict": "it leaks"})
    assert none.policy_for(None) == "none", "other jobs run"
    assert none.no_yolo == "it leaks"
    with pytest.raises(SandboxUnavailable, match=r"has none that works: it leaks; .*`aq doctor`"):
        none.policy_for(None, yolo=True)


def test_a_yolo_job_is_refused_where_the_sandbox_is_switched_off() -> None:
    off = Sandbox(None, "none", missing={"workspace": SWITCHED_OFF, "strict": SWITCHED_OFF})
    with pytest.raises(SandboxUnavailable, match=r"factory\.yolo-without-sandbox = true"):
        off.policy_for(None, yolo=True)


def test_a_yolo_job_runs_in_a_sandbox_or_where_the_operator_says_so() -> None:
    assert Sandbox(Remembering(), "workspace").policy_for(None, yolo=True) == "workspace"
    missing: dict[Policy, str] = {"workspace": "off", "strict": "off"}
    off = Sandbox(None, "none", missing=missing, yolo_unconfined=True)
    assert (off.policy_for(None, yolo=True), off.no_yolo) == ("none", "")


async def test_factory_folder_is_hidden_except_for_the_worktree(tmp_path: Path) -> None:
    work, git = tmp_path / "work", tmp_path / "mirror"
    for folder in (work, git):
        folder.mkdir()
    tool = Remembering()
    sandbox = Sandbox(tool, "workspace", exposure=Exposure(hidden=(tmp_path,)))
    await confined(sandbox, a_program(work), writable=[work], readable=[git])
    assert access_of(tmp_path / "token", tool.seen) == "none"
    assert access_of(work / "a.py", tool.seen) == "write"
    assert access_of(git / "HEAD", tool.seen) == "read"


async def test_program_in_a_hidden_folder_is_shown_with_its_package(
    tmp_path: Path,
) -> None:
    modules = tmp_path / "lib" / "node_modules"
    script = modules / "agent" / "cli.js"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    link = tmp_path / "bin" / "agent"
    link.parent.mkdir()
    link.symlink_to(script)
    tool = Remembering()
    sandbox = Sandbox(tool, "workspace", exposure=Exposure(hidden=(tmp_path,)))
    await confined(sandbox, a_program(Path("/"), str(link)))
    assert access_of(link, tool.seen) == "read"
    assert access_of(modules / "other" / "index.js", tool.seen) == "read"
    assert access_of(tmp_path / "token", tool.seen) == "none"


async def test_missing_program_is_rejected_before_the_sandbox_starts(
    tmp_path: Path,
) -> None:
    with pytest.raises(CannotStart, match="'no-such-tool': there is no such program"):
        await confined(Sandbox(Remembering(), "workspace"), a_program(tmp_path, "no-such-tool"))


async def test_missing_worktree_is_rejected_before_the_sandbox_starts(tmp_path: Path) -> None:
    sandbox = Sandbox(Remembering(), "workspace")
    with pytest.raises(CannotStart, match=r"gone': it does not exist"):
        await confined(sandbox, a_program(tmp_path), writable=[tmp_path / "gone"])


HOLDS = [
    "inside done",
    "outside failed",
    "secret failed",
    "connection failed",
    "proxy failed",
    "kernel failed",
    "environment failed",
]


def test_sandbox_holds_when_all_escape_attempts_fail() -> None:
    assert evaluate(HOLDS, network=False) is None


@pytest.mark.parametrize(
    ("leak", "said"),
    [
        ("outside", "can write outside its worktree"),
        ("secret", "can read hidden files"),
        ("environment", "can read the environment of the process that started it"),
        ("connection", "can connect to the network"),
        ("kernel", "can change kernel settings"),
        ("proxy", "its proxy lets a program reach a host that is not allowed"),
    ],
)
def test_sandbox_with_a_leak_does_not_hold(leak: str, said: str) -> None:
    heard = [f"{leak} done" if line.startswith(leak) else line for line in HOLDS]
    assert said in (evaluate(heard, network=False) or "")


def test_the_secret_that_can_be_read_is_named() -> None:
    heard = [*HOLDS, "visible b'/data/admin.token'", "secret done"]
    assert evaluate(heard, network=False) == (
        "a program in it can read hidden files: b'/data/admin.token'"
    )


def test_shared_network_may_be_reached() -> None:
    heard = [line.replace("connection failed", "connection done") for line in HOLDS]
    assert evaluate(heard, network=True) is None


@pytest.mark.parametrize(
    ("heard", "said"),
    [
        (["bwrap: No permissions to create a new namespace"], "No permissions to create"),
        ([], "it printed nothing"),
        (["inside failed", *HOLDS[1:]], "cannot write to its own worktree"),
    ],
)
def test_sandbox_that_does_not_start_reports_the_cause(heard: list[str], said: str) -> None:
    assert said in (evaluate(heard, network=False) or "")
