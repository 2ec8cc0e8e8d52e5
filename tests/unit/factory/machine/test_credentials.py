"""Credentials: their presence is detected, and their values are never exposed."""

from gigafactory.factory.machine.credentials import Credential, credentials_present

KNOWN = {
    "cloud": Credential(("CLOUD_KEY", "CLOUD_PROFILE"), (".cloud/key",)),
    "forge": Credential(("FORGE_TOKEN",)),
}


def test_credential_is_detected_by_its_variable_or_file() -> None:
    by_variable = credentials_present({"FORGE_TOKEN": "hush"}, lambda _: False, KNOWN)
    assert by_variable == ("cred:forge",)
    by_file = credentials_present({}, lambda path: path == ".cloud/key", KNOWN)
    assert by_file == ("cred:cloud",)


def test_empty_variable_is_no_credential() -> None:
    assert credentials_present({"FORGE_TOKEN": ""}, lambda _: False, KNOWN) == ()


def test_credential_values_are_not_exposed() -> None:
    result = credentials_present(
        {"CLOUD_KEY": "hush", "FORGE_TOKEN": "hush"}, lambda _: True, KNOWN
    )
    assert result == ("cred:cloud", "cred:forge")
