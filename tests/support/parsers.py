"""Every parser of the tree as a function of hostile bytes, for tests of time and for fuzzing."""

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import msgspec

from gigafactory.api.http.cursor import decode_cursor
from gigafactory.api.http.decoding import decode_document, decode_json, decode_query, parse_fault
from gigafactory.api.http.download import parse_range
from gigafactory.api.jobs.jobs import parse_batch
from gigafactory.api.workers.scaling import parse_shapes
from gigafactory.client.transport.problems import parse_refusal
from gigafactory.domain.composite.plan import parse_plan
from gigafactory.domain.errors import Refused
from gigafactory.domain.job.diff import read_diff, truncate
from gigafactory.domain.job.token_price import price_of
from gigafactory.domain.manifest.capability import (
    Requirement,
    meets,
    parse_advertised,
    similar_tokens,
)
from gigafactory.domain.manifest.frontmatter import parse_document, parse_yaml
from gigafactory.domain.manifest.job_file import (
    parse_job_file,
    parse_json,
    parse_json_job,
    parse_snapshot,
    title_of,
)
from gigafactory.domain.manifest.names import slugify
from gigafactory.domain.manifest.profile import parse_profile_file, parse_profile_json
from gigafactory.domain.manifest.repo import repo_name
from gigafactory.domain.manifest.scope import matches_any
from gigafactory.domain.manifest.units import parse_count, parse_duration, parse_usd
from gigafactory.engines.catalogue import load_engines
from gigafactory.engines.codex import reset_time
from gigafactory.engines.prices import load_price_list
from gigafactory.engines.protocol.engine import Engine
from gigafactory.engines.protocol.json_lines import parse_record, parse_records
from gigafactory.factory.core.data_dir import parse_folder_name
from gigafactory.factory.forges.github_responses import decode
from gigafactory.factory.git.commits import parse_trailers
from gigafactory.factory.git.errors import error_from_output
from gigafactory.factory.git.remote_url import parse_address
from gigafactory.factory.machine import tools
from gigafactory.factory.machine.engines import parse_seats
from gigafactory.factory.machine.health import parse_cpu_ticks, parse_meminfo, parse_vm_stat
from gigafactory.factory.process.process_table import parse_ps
from gigafactory.factory.run.log_lines import format_program_output
from gigafactory.factory.secrets.redaction import redact
from gigafactory.folder.queue.record import decode as decode_record
from gigafactory.store.rows import split_words
from gigafactory.system.terminal_escapes import keep_colours_only, strip_escapes
from gigafactory.trackers.http import decode_answer, decode_delivery
from gigafactory.tui.widgets.text import one_line, render_log_line
from gigafactory.web.presenters.diff import parse_diff
from gigafactory.web.presenters.profile_text import format_profile_file
from gigafactory.wire.jobs import JobFilter
from gigafactory.wire.reports import ReportDoc
from gigafactory.wire.scaling import ScalingQuery
from tests.support.engine_replay import a_work

FAR_EAST = datetime(2026, 7, 1, tzinfo=timezone(timedelta(hours=14)))

REFUSALS = (Refused, ValueError, msgspec.DecodeError)
"""The exceptions that a parser may raise; any other is a bug."""

Parser = Callable[[bytes], object]


def _text(parse: Callable[[str], object]) -> Parser:
    return lambda data: parse(data.decode(errors="surrogateescape"))


def _json(parse: Callable[[dict[str, Any]], object]) -> Parser:
    return lambda data: parse(decode_document(data))


def _globbed(data: bytes) -> object:
    path, _, glob = data.decode(errors="replace").partition("\n")
    return matches_any(path, [glob[:300]]), matches_any("/".join(glob), [path[:300]])


def _required(token: str) -> object:
    Requirement.parse(token)
    similar_tokens(token, [token[at:] for at in range(0, len(token), 40)])
    return meets(token, parse_advertised(["node:20.1"]))


def _engine(engine: Engine, data: bytes) -> object:
    """Parse the data as an engine's output and side files."""
    reader = engine.reader(a_work())
    for number, line in enumerate(data.decode(errors="replace").split("\n")):
        list(reader.read(line, stderr=number % 2 == 1))
        list(reader.read(line, stderr=number % 2 == 0))
    left = engine.start(a_work()).side_files
    return reader.end(1, {name.replace("*", "x"): data for name in left})


def _of_engine(engine: Engine) -> Parser:
    return lambda data: _engine(engine, data)


PARSERS: dict[str, Parser] = {
    "api.http.cursor:decode_cursor": _text(lambda text: decode_cursor(text, "query")),
    "api.http.decoding:decode_json": lambda data: decode_json(data, ReportDoc),
    "api.http.decoding:decode_document": decode_document,
    "api.http.decoding:decode_query": lambda data: decode_query(data, JobFilter),
    "api.http.decoding:parse_fault": _text(parse_fault),
    "api.http.download:parse_range": lambda data: parse_range(data, 1000),
    "api.jobs.jobs:parse_batch": _json(lambda obj: parse_batch(obj, 1000)),
    "api.workers.scaling:parse_shapes": _text(lambda text: parse_shapes(ScalingQuery(shapes=text))),
    "client.transport.problems:parse_refusal": lambda data: parse_refusal(422, data),
    "domain.composite.plan:parse_plan": parse_plan,
    "domain.job.diff:read_diff": read_diff,
    "domain.job.diff:truncate": _text(lambda text: truncate(text, 1000, "all")),
    "domain.job.token_price:price_of": _text(lambda text: price_of(load_price_list().prices, text)),
    "domain.manifest.capability:parse_advertised": _text(
        lambda text: parse_advertised(text.split("\n"))
    ),
    "domain.manifest.capability:Requirement": _text(_required),
    "domain.manifest.frontmatter:parse_document": parse_document,
    "domain.manifest.frontmatter:parse_yaml": parse_yaml,
    "domain.manifest.job_file:parse_job_file": parse_job_file,
    "domain.manifest.job_file:parse_json": _json(parse_json),
    "domain.manifest.job_file:parse_snapshot": _json(parse_snapshot),
    "domain.manifest.job_file:parse_json_job": _json(parse_json_job),
    "domain.manifest.fields:schedule": _text(lambda text: parse_json({"schedule": text})),
    "domain.manifest.job_file:title_of": _text(title_of),
    "domain.manifest.names:slugify": _text(slugify),
    "domain.manifest.profile:parse_profile_file": parse_profile_file,
    "domain.manifest.profile:parse_profile_json": _json(parse_profile_json),
    "domain.manifest.repo:repo_name": _text(repo_name),
    "domain.manifest.scope:matches_any": _globbed,
    "domain.manifest.units:parse_duration": _text(parse_duration),
    "domain.manifest.units:parse_count": _text(parse_count),
    "domain.manifest.units:parse_usd": _text(parse_usd),
    "engines.codex:reset_time": _text(lambda text: reset_time(text, FAR_EAST)),
    "engines.protocol.json_lines:parse_record": parse_record,
    "engines.protocol.json_lines:parse_records": lambda data: list(parse_records(data)),
    "factory.core.data_dir:parse_folder_name": _text(parse_folder_name),
    "factory.forges.github_responses:decode": lambda data: decode(data, dict[str, str], "it"),
    "factory.git.commits:parse_trailers": _text(parse_trailers),
    "factory.git.errors:error_from_output": _text(lambda text: error_from_output(("x",), 1, text)),
    "factory.git.remote_url:parse_address": _text(parse_address),
    "factory.machine.engines:parse_seats": _text(lambda text: parse_seats(text, ["claude"])),
    "factory.machine.health:parse_meminfo": _text(parse_meminfo),
    "factory.machine.health:parse_cpu_ticks": _text(parse_cpu_ticks),
    "factory.machine.health:parse_vm_stat": _text(parse_vm_stat),
    "factory.machine.tools:strip_escapes": _text(tools.strip_escapes),
    "factory.machine.tools:parse_version": _text(tools.parse_version),
    "factory.machine.tools:parse_java_version": _text(tools.parse_java_version),
    "factory.machine.tools:parse_go_version": _text(tools.parse_go_version),
    "factory.process.process_table:parse_ps": _text(lambda text: parse_ps(text, text, "m")),
    "factory.run.log_lines:format_program_output": _text(format_program_output),
    "factory.secrets.redaction:redact": _text(lambda text: redact(text, ["a secret value"])),
    "folder.queue.record:decode": decode_record,
    "store.rows:split_words": _text(split_words),
    "system.terminal_escapes:strip_escapes": _text(strip_escapes),
    "system.terminal_escapes:keep_colours_only": _text(keep_colours_only),
    "trackers.http:decode_answer": lambda data: decode_answer(data, dict[str, str], "it"),
    "trackers.http:decode_delivery": lambda data: decode_delivery(data, dict[str, str]),
    "tui.widgets.text:one_line": _text(one_line),
    "tui.widgets.text:render_log_line": _text(render_log_line),
    "web.presenters.diff:parse_diff": _text(parse_diff),
    "web.presenters.profile_text:format_profile_file": _text(
        lambda text: format_profile_file(
            parse_profile_json({"name": "a", "x-a": list(text[:9000])})
        )
    ),
    **{f"engines.{name}": _of_engine(engine) for name, engine in load_engines().items()},
}
"""All parsers, by module and function."""

EXEMPT = {
    "domain.manifest.decoder:decode_fields": "nodes, which parse_job_file makes",
    "domain.manifest.job_file:decode_children": "nodes, which parse_plan makes",
    "domain.manifest.yaml_node:parse_key": "one key, which parse_json passes",
    "factory.git.diff:parse_diff": "the output of our own git command, whose size is limited",
    "factory.process.process_table:parse_stat": "a file of the kernel",
    "store.rows:parse_expiries": "our own column",
    "tui.views.jobs:matches_filter": "words that the person at the terminal types",
}

REACHED = {
    "api.http.decoding:decode_query": "it has a row",
    "cli.fleet.profiles:_show": "a profile, in the process of the person at the terminal",
    "cli.group:Aq.resolve_command": "a word that the person at the terminal types",
    "config.loading:_nearest": "settings of this machine",
    "domain.manifest.capability:_closest": "by the row of Requirement",
    "domain.manifest.decoder:unknown_key_message": "by parse_json; keys are cut",
    "domain.manifest.fields:_schedule": "by the row of schedule",
    "domain.submission.schedule:next_tick": "an expression that has passed _schedule",
    "engines.acp:_start_named": "a command of the settings",
    "engines.acp:acp_engine": "a command of the settings",
    "factory.git.dns_pinning:_ssh_configuration": "settings of this machine",
    "factory.git.dns_pinning:pin_ssh": "settings of this machine",
    "factory.git.repos:Repos.address": "names of 1000 characters, with globs of the settings",
    "factory.machine.engines:_wrong_seats": "settings of this machine",
    "factory.run.engine_home:_matching": "names of files, with our own globs",
    "factory.run.log_lines:_begins_like_ours": "by format_program_output",
    "web.pages.jobs:_filters": "a query, which the server limits to some kilobytes",
    "store.postgres.address:_host_and_port": "settings of this machine",
    "store.postgres.address:single_hosts": "settings of this machine",
}
"""Functions that compare, convert or split texts by a slow library, and what attacks them."""

SEEDS: tuple[bytes, ...] = (
    b"",
    b"# a",
    b"---\nname: a\n",
    b'---\nx: "',
    b"x\n",
    b"diff --git a/x b/x\n@@ -1 +1 @@\n",
    b'{"manifest": {"',
    b'{"type": "',
    b'message="stream error" error.error="',
    b"https://",
    b"node>=",
    b"try again at Jan 1st, 0001 ",
)
PUMPS: tuple[bytes, ...] = (
    *(bytes([char]) for char in b"a 0/[{\"\\\n\r:'-#.=@,("),
    "\u2028".encode(),
    b"\xff",
    b"**/",
    b"a*",
    b"\x1b[",
    b"\x1b]",
    b"- a\n",
    b"a: 1\n",
    b'{"a":',
    b"://",
    b"--- \n",
    b"diff --git a/",
    b"@@ -1 +1 @@\n",
    b" error.error=",
    b"TOKEN=",
    b"sk-",
    b"aq: ",
)
