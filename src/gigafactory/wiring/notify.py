"""Build the notification channels."""

from collections.abc import Mapping
from datetime import timedelta

from gigafactory.config.settings import ChannelSettings
from gigafactory.config.settings import NotifySettings as Settings
from gigafactory.coordinator.duties.notifier import ALL_KINDS, Channel, Messenger
from gigafactory.domain.errors import Fault, Invalid


def build_channels(notify: Settings) -> tuple[Channel, ...]:
    """Return the channels with their products and kinds."""
    return tuple(
        Channel(
            name=name,
            products=channel.products,
            kinds=channel.kinds or ALL_KINDS,
            quiet=timedelta(seconds=notify.quiet),
        )
        for name, channel in notify.channels.items()
    )


def open_messenger(notify: Settings, environ: Mapping[str, str]) -> Messenger:
    """Return a messenger for the channels; URLs are read from variables or files.

    Raise Invalid for a channel without a usable URL, Unavailable without the extra `notify`.
    """
    faults: list[Fault] = []
    urls = {
        name: _read_urls(name, channel, environ, faults)
        for name, channel in notify.channels.items()
    }
    if faults:
        raise Invalid("the configuration", faults)
    from gigafactory.notify.apprise import AppriseMessenger

    return AppriseMessenger(urls, local=notify.local)


def _read_urls(
    name: str, channel: ChannelSettings, environ: Mapping[str, str], faults: list[Fault]
) -> list[str]:
    where = f"notify.channels.{name}"
    if channel.url_env is not None:
        field, urls_text = "url-env", environ.get(channel.url_env, "")
        missing = f"the variable {channel.url_env} is not set or empty"
    else:
        assert channel.url_file is not None, "the settings have one of the two"
        field, urls_text = "url-file", ""
        missing = f"{channel.url_file} contains no URL"
        try:
            urls_text = channel.url_file.expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            missing = f"{channel.url_file} cannot be read: {error}"
    lines = [line.strip() for line in urls_text.splitlines()]
    urls = [line for line in lines if line and not line.startswith("#")]
    if not urls:
        faults.append(Fault(f"{where}.{field}", missing))
    return urls
