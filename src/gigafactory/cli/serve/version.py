"""`aq completion` and `aq version`."""

import click
from click.shell_completion import get_completion_class

from gigafactory import __version__
from gigafactory.cli.output.text import say


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, *, shell: str) -> None:
    r"""Print the completion script of a shell.

    \b
    bash:  aq completion bash > ~/.local/share/bash-completion/completions/aq
    zsh:   aq completion zsh > ~/.zfunc/_aq      (a folder of your fpath)
    fish:  aq completion fish > ~/.config/fish/completions/aq.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None, "Click supports these shells"
    say(kind(ctx.find_root().command, {}, "aq", "_AQ_COMPLETE").source())


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def version(*, as_json: bool) -> None:
    """Print the version of this program."""
    say(f'{{"version": "{__version__}"}}' if as_json else __version__)
