"""Logging: one line per event to stderr, as text for people or JSON for collectors."""

import logging
import sys
from typing import Literal

import structlog

from gigafactory.system.terminal_escapes import keep_colours_only

Format = Literal["text", "json"]


def configure(level: str, form: Format) -> None:
    """Send our own log lines and those of libraries to stderr in the same format."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: structlog.typing.Processor
    if form == "json":
        shared.append(structlog.processors.format_exc_info)
        last = structlog.processors.JSONRenderer()
    else:
        last = structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        # A line below the level costs only an empty call: every request has one.
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        _SafeFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, last],
        )
    )
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # Libraries log only warnings and errors.
    for library in ("uvicorn", "httpx"):
        logging.getLogger(library).setLevel(max(logging.WARNING, logging.getLogger().level))


class _SafeFormatter(structlog.stdlib.ProcessorFormatter):
    """Removes escape sequences from log lines: values and tracebacks quote names from others."""

    def format(self, record: logging.LogRecord) -> str:
        return keep_colours_only(super().format(record))


def silence() -> None:
    """Log nothing, where the terminal shows something else."""
    logging.disable(logging.CRITICAL)
    structlog.configure(processors=[_drop])


def _drop(
    _logger: object, _name: str, _event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    raise structlog.DropEvent
