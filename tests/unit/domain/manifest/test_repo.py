"""Repos, refs, names and paths that a manifest may or may not contain."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gigafactory.domain.manifest import names
from gigafactory.domain.manifest.capability import Requirement
from gigafactory.domain.manifest.repo import ref, repo, repo_identity, repo_name


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("notes", "notes"),
        ("owner/notes", "notes"),
        ("https://example.com/owner/notes.git", "notes"),
        ("https://example.com:8443/owner/notes/", "notes"),
        ("ssh://git@example.com:22/owner/notes.git", "notes"),
        ("ssh://example.com/notes", "notes"),
        ("git://example.com/notes", "notes"),
        ("git@example.com:owner/notes.git", "notes"),
        ("git@example.com:notes", "notes"),
        ("https://[::1]/notes", "notes"),
        ("/srv/repos/my notes.git", "my-notes"),
        ("~/code/notes", "notes"),
        (r"C:\code\notes", "notes"),
    ],
)
def test_valid_repo_is_accepted_and_has_a_short_name(written: str, name: str) -> None:
    assert repo(written) == written
    assert repo_name(written) == name


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("--upload-pack=touch /tmp/x", "would be an option"),
        ("ext::sh -c x", "transport helpers"),
        ("fd::17", "transport helpers"),
        ("file:///etc", "file:// is not allowed"),
        ("HTTPS://example.com/x", "HTTPS:// is not allowed"),
        ("ssh://-oProxyCommand=x/y", "such as ssh://host"),
        ("ssh://git@-oProxyCommand=x/y", "such as ssh://host"),
        ("-oProxyCommand@host:x", "would be an option"),
        ("git@-host:x", "a repo's name"),
        ("git@host:-x", "a repo's name"),
        ("https://token@example.com/x", "without a user or secret"),
        ("https://user:secret@example.com/x", "without a user or secret"),
        ("ssh://user:secret@example.com/x", "such as ssh://host"),
        ("https://example.com", "such as https://host"),
        ("https://example.com/a/%2e%2E/x", "also as %2e%2e"),
        ("https://example.com/a/..%2fx", "also as %2e%2e"),
        ("../x", r"without `\.\.`"),
        ("/srv/../etc", r"without `\.\.`"),
        ("./x", "a repo's name"),
        ("a b", "a repo's name"),
        ("a\nb", "control characters"),
        ("a\x1b[31m", "control characters"),
        ("", "1 to 1000"),
        ("x" * 1001, "1 to 1000"),
    ],
)
def test_repo_that_git_could_misread_is_rejected(written: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        repo(written)


@settings(deadline=None)
@given(st.text(max_size=40))
def test_short_name_of_any_repo_is_a_valid_capability_value(written: str) -> None:
    assert Requirement.parse(f"repo:{repo_name(written)}").value == repo_name(written)


@pytest.mark.parametrize(
    ("written", "identity"),
    [
        ("https://git.example/acme/notes.git", "git.example/acme/notes"),
        ("https://GIT.example:443/acme//./notes/", "git.example/acme/notes"),
        ("ssh://git@git.example:22/acme/notes.git", "git.example/acme/notes"),
        ("git@git.example:acme/notes.git", "git.example/acme/notes"),
        ("git@git.example:/acme/notes.git", "git.example/acme/notes"),
        ("bob@git.example:notes", "bob@git.example/notes"),
        ("git@[::1]:acme/notes", "[::1]/acme/notes"),
        ("ssh://git.example:2222/acme/notes", "git.example:2222/acme/notes"),
        ("http://git.example/acme/notes", "http://git.example/acme/notes"),
        ("git://git.example/acme/notes", "git://git.example/acme/notes"),
        ("/srv//repos/./notes.git/", "/srv/repos/notes.git"),
        ("~/src/notes", "~/src/notes"),
        ("notes", "notes"),
        ("acme/notes", "acme/notes"),
    ],
)
def test_two_spellings_of_one_repo_have_one_identity(written: str, identity: str) -> None:
    assert repo_identity(repo(written)) == identity


@pytest.mark.parametrize(
    "written",
    [
        "https://evil.example/x/notes.git",
        "https://git.example/acme/other/notes",
        "https://git.example/acme%2fnotes",
        "http://git.example/acme/notes",
        "/srv/private/notes",
        "notes",
    ],
)
def test_a_repo_with_the_same_last_part_is_another_repo(written: str) -> None:
    assert repo_identity(repo(written)) != repo_identity("https://git.example/acme/notes.git")


@pytest.mark.parametrize("branch", ["main", "release/2.1", "user/x_y-z", "v1.0"])
def test_valid_branch_is_accepted(branch: str) -> None:
    assert ref(branch) == branch


@pytest.mark.parametrize(
    "branch",
    [
        "-x",
        "a..b",
        "a b",
        "a~1",
        "a^",
        "a:b",
        "a?",
        "a*",
        "a[b",
        "a\\b",
        "@",
        "a@{1}",
        "/a",
        "a/",
        "a//b",
        ".a",
        "a/.b",
        "a.lock",
        "a.lock/b",
        "a.",
        "--upload-pack=x",
        "",
    ],
)
def test_invalid_branch_is_rejected(branch: str) -> None:
    with pytest.raises(ValueError, match=r"the name of a branch|a text of"):
        ref(branch)


@pytest.mark.parametrize("bad", ["../x", "A", "-a", "", "a..b", "a/b", "x" * 101, "é", "a\n"])
def test_name_that_is_not_a_slug_is_rejected(bad: str) -> None:
    with pytest.raises(ValueError, match="lower-case letters"):
        names.slug(bad)


@settings(deadline=None)
@given(st.text(max_size=300))
def test_slug_of_any_file_name_is_a_valid_name_or_absent(stem: str) -> None:
    made = names.slugify(stem)
    assert made is None or names.slug(made) == made


def test_slugify_keeps_letters_digits_and_dots() -> None:
    assert names.slugify("Fix Login (v2)") == "fix-login-v2"
    assert names.slugify("../../Événement..x") == "evenement.x"
    assert names.slugify("日本") is None


def test_valid_references_to_jobs_people_variables_and_profiles_are_accepted() -> None:
    assert names.reference("01J9ZK_x") == "01J9ZK_x"
    assert names.person("@alice") == names.person("alice") == "alice"
    assert names.variable("API_KEY") == "API_KEY"
    assert names.profile_reference("qa") == ("qa", None)
    assert names.profile_reference("qa@12") == ("qa", 12)


@pytest.mark.parametrize("bad", ["../x", "a b", "a..b", ""])
def test_invalid_reference_is_rejected(bad: str) -> None:
    for check in (names.reference, names.profile_reference):
        with pytest.raises(ValueError, match="name"):
            check(bad)


def test_invalid_person_or_variable_is_rejected() -> None:
    with pytest.raises(ValueError, match="such as @alice"):
        names.person("@-x")
    with pytest.raises(ValueError, match="values never appear"):
        names.variable("A=b")


def test_text_with_control_characters_or_leading_dash_is_rejected() -> None:
    assert names.line(" héllo\u00a0wörld ", chars_max=20) == "héllo\u00a0wörld"
    for bad in ("a\x1b]52;c;x", "a\x9bb", "a\u202eb", "a\nb"):
        with pytest.raises(ValueError, match="control characters"):
            names.line(bad, chars_max=20)
    with pytest.raises(ValueError, match="1 to 3"):
        names.line("four", chars_max=3)
    with pytest.raises(ValueError, match="begin with a dash"):
        names.option_free_line("--x", chars_max=9)
    assert names.option_free_line("opus", chars_max=9) == "opus"


def test_script_may_have_line_breaks_and_tabs_as_its_only_control_characters() -> None:
    assert names.script("a\n\tb\r\n", chars_max=9) == "a\n\tb\r\n"
    with pytest.raises(ValueError, match="control characters"):
        names.script("a\x07", chars_max=9)
    with pytest.raises(ValueError, match="1 to 9"):
        names.script(" ", chars_max=9)


def test_paths_and_globs_with_parent_segments_are_rejected() -> None:
    assert names.absolute_path("/srv/x") == "/srv/x"
    assert names.absolute_path("C:/x") == "C:/x"
    assert names.glob("src/**") == "src/**"
    for bad in ("x", "/a/../b", "~/x", r"C:\a\..\b"):
        with pytest.raises(ValueError, match="absolute path"):
            names.absolute_path(bad)
    for bad in ("/etc/*", "../*", "-x", "~/x", r"a\..\b"):
        with pytest.raises(ValueError, match="below the worktree"):
            names.glob(bad)
