"""The environment of a run's programs: variables that are passed on, and those that never are."""

from pathlib import PurePosixPath

from hypothesis import given
from hypothesis import strategies as st

from gigafactory.factory.run.environment import build_environment, filter_allowed

HOME = PurePosixPath("/jobs/home")
WORKTREE = PurePosixPath("/jobs/work")


def an_environment(environ: dict[str, str], **more: list[str]) -> dict[str, str]:
    return build_environment(
        environ,
        home=HOME,
        job_id="j1",
        run_id="r1",
        worktree=WORKTREE,
        names=more.get("names", []),
        credentials=more.get("credentials", []),
    )


def test_environment_names_home_job_run_worktree_and_ports() -> None:
    env = build_environment(
        {},
        home=HOME,
        job_id="j1",
        run_id="r1",
        worktree=WORKTREE,
        tmp=PurePosixPath("/t"),
        port_base=41000,
    )
    assert env["HOME"] == "/jobs/home"
    assert env["TMPDIR"] == "/t"
    assert (env["AQ_JOB_ID"], env["AQ_RUN_ID"], env["AQ_WORKTREE"]) == ("j1", "r1", "/jobs/work")
    assert env["AQ_PORT_BASE"] == "41000"


def test_environment_disables_interactive_prompts() -> None:
    env = an_environment({"TERM": "xterm", "EDITOR": "vi", "PAGER": "less"})
    assert (env["TERM"], env["CI"], env["GIT_TERMINAL_PROMPT"]) == ("dumb", "true", "0")
    assert {env["EDITOR"], env["VISUAL"], env["GIT_EDITOR"]} == {"true"}
    assert {env["PAGER"], env["GIT_PAGER"]} == {"cat"}


def test_locale_proxies_and_certificates_are_passed_on() -> None:
    outer = {
        "PATH": "/opt/bin",
        "LANG": "de_DE.UTF-8",
        "LC_TIME": "C",
        "TZ": "UTC",
        "https_proxy": "http://proxy:3128",
        "NO_PROXY": "localhost",
        "SSL_CERT_FILE": "/ca.pem",
        "NODE_EXTRA_CA_CERTS": "/ca.pem",
    }
    assert an_environment(outer).items() >= outer.items()


def test_only_named_variables_and_credentials_are_passed_on() -> None:
    outer = {"ASKED": "1", "KEY_OF_ENGINE": "2", "AWS_SECRET_ACCESS_KEY": "3", "SSH_AUTH_SOCK": "4"}
    env = an_environment(outer, names=["ASKED", "MISSING"], credentials=["KEY_OF_ENGINE"])
    assert (env["ASKED"], env["KEY_OF_ENGINE"]) == ("1", "2")
    assert not {"AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK", "MISSING"} & env.keys()


def test_factory_token_is_never_passed_on() -> None:
    outer = {"AQ_TOKEN": "secret", "AQ_JOB_ID": "another"}
    env = an_environment(outer, names=["AQ_TOKEN"], credentials=["AQ_TOKEN", "AQ_JOB_ID"])
    assert "AQ_TOKEN" not in env
    assert env["AQ_JOB_ID"] == "j1"


@given(st.dictionaries(st.text(st.characters(codec="ascii"), min_size=1), st.text()))
def test_unnamed_variables_are_not_passed_on(outer: dict[str, str]) -> None:
    known = an_environment({}).keys()
    passed = an_environment(outer).keys() - known
    assert all(name in outer for name in passed)
    assert all(name.startswith("LC_") or name.isupper() or "proxy" in name for name in passed)


def test_manifest_gets_only_the_variables_the_factory_allows() -> None:
    names = ("NPM_TOKEN", "NPM_HOME", "OTHER", "AQ_TOKEN")
    assert filter_allowed(names, ["NPM_*"]) == ("NPM_TOKEN", "NPM_HOME")
    assert filter_allowed(names, ["OTHER"]) == ("OTHER",)
    assert filter_allowed(names, ["*"]) == ("NPM_TOKEN", "NPM_HOME", "OTHER")
    assert filter_allowed(names, []) == ()
