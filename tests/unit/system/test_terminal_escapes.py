"""Escape sequences never reach a terminal, neither in results nor in log lines."""

import io
import sys

import pytest
import structlog

from gigafactory.cli.output.text import note, say, say_json
from gigafactory.system import logging

CLIPBOARD = "\x1b]52;c;aGk=\x07"


def test_whatever_a_command_prints_has_no_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"a{CLIPBOARD}b\x9b2J")
    note(f"new in the inbox: {CLIPBOARD}\udcff.md")
    say_json(b'{"a": "\xc2\x9b2J\x7f"}')
    printed = capsys.readouterr()
    assert printed.out == 'ab2J\n{\n  "a": "\\u009b2J\\u007f"\n}\n'
    assert printed.err == "new in the inbox: ?.md\n"


def test_a_message_about_a_file_has_no_colours_either(monkeypatch: pytest.MonkeyPatch) -> None:
    err = io.StringIO()
    monkeypatch.setattr(err, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", err)
    note("\x1b[8m\x1b[31mhidden.md cannot be read")
    assert err.getvalue() == "hidden.md cannot be read\n"


def test_a_log_line_has_no_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    before = structlog.get_config()
    try:
        logging.configure("info", "text")
        log = structlog.get_logger("test")
        log.info("found", file=f"a{CLIPBOARD}b")
        log.error("failed", exc_info=ValueError(CLIPBOARD))
    finally:
        structlog.configure(**before)
    assert "found" in out.getvalue()
    assert "ValueError" in out.getvalue()
    assert "\x1b]" not in out.getvalue()
