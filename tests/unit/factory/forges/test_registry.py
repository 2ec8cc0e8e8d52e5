"""The forge of a repo, or a plain remote if no forge matches."""

import pytest

from gigafactory.domain.errors import Forbidden, Invalid
from gigafactory.factory.forges.registry import ForgeAccess, Forges, repo_slug
from gigafactory.factory.git.remote_url import AllowedRemotes, parse_address

GHE = {"git.example.com": ForgeAccess("GHE_TOKEN")}


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://github.com/me/notes", "me/notes"),
        ("https://github.com/me/notes.git", "me/notes"),
        ("https://github.com/me/notes/", "me/notes"),
        ("ssh://git@github.com:22/me/notes.git", "me/notes"),
        ("git@github.com:me/my.notes.git", "me/my.notes"),
        ("https://github.com/me", None),
        ("https://github.com/a/b/c", None),
        ("/srv/git/me/notes.git", None),
    ],
)
def test_owner_and_name_are_parsed_from_every_url_form(url: str, found: str | None) -> None:
    assert repo_slug(url) == found


@pytest.mark.parametrize("variable", ["GITHUB_TOKEN", "GH_TOKEN"])
def test_github_is_a_forge_when_its_token_is_set(variable: str) -> None:
    known = Forges({}, {variable: "secret-token"})
    for url in ("https://GitHub.com/me/notes", "git@github.com:me/notes.git"):
        assert known.forge_for(parse_address(url)) is not None
    assert known.forge_for(parse_address("ssh://git@ssh.github.com:443/me/notes.git")) is not None
    assert known.tokens == ("secret-token",)
    assert known.git_credentials == {"https://github.com": "secret-token"}


def test_github_without_a_token_is_a_plain_remote() -> None:
    assert (
        Forges({}, {"GITHUB_TOKEN": ""}).forge_for(parse_address("git@github.com:me/x.git")) is None
    )


def test_github_token_is_used_for_no_other_host() -> None:
    known = Forges(GHE, {"GITHUB_TOKEN": "public-token", "GHE_TOKEN": "own-token"})
    assert known.git_credentials == {
        "https://git.example.com": "own-token",
        "https://github.com": "public-token",
    }
    for url in ("https://github.com.example.com/me/x", "https://gitlab.com/me/x"):
        assert known.forge_for(parse_address(url)) is None


def test_path_that_is_not_owner_and_name_is_a_plain_remote() -> None:
    known = Forges(GHE, {"GHE_TOKEN": "own-token"})
    assert known.forge_for(parse_address("https://git.example.com/scm/me/x.git")) is None


@pytest.mark.parametrize("token", ["", "  ", "two words", "line\nend", "\x00"])
def test_unusable_forge_token_is_rejected_without_showing_it(
    token: str,
) -> None:
    with pytest.raises(Invalid, match=r"factory\.forges\.git\.example\.com: .*GHE_TOKEN") as no:
        Forges(GHE, {"GHE_TOKEN": token})
    assert not token.strip() or token not in str(no.value)


@pytest.mark.parametrize("api", ["http://git.example.com/api/v3", "ftp://x", "git.example.com"])
def test_forge_token_requires_an_https_api(api: str) -> None:
    with pytest.raises(Invalid, match="use an https URL"):
        Forges({"git.example.com": ForgeAccess("GHE_TOKEN", api)}, {"GHE_TOKEN": "own-token"})


@pytest.mark.parametrize(
    "url",
    ["https://git.example.com/me/x", "git@GIT.example.com:me/x", "http://git.example.com/me/x"],
)
def test_the_credentials_of_one_product_do_not_serve_another(url: str) -> None:
    scoped = {"git.example.com": ForgeAccess("GHE_TOKEN", products=("notes", "shop"))}
    known = Forges(scoped, {"GHE_TOKEN": "own-token"})
    address = parse_address(url, AllowedRemotes(plain=True))
    known.require_product(address, "notes")
    with pytest.raises(Forbidden, match="do not serve product 'bravo'"):
        known.require_product(address, "bravo")


def test_a_host_without_credentials_or_with_those_of_all_serves_every_product() -> None:
    known = Forges(GHE, {"GHE_TOKEN": "own-token"})
    for url in ("https://git.example.com/me/x", "https://plain.example/me/x"):
        known.require_product(parse_address(url), "bravo")
