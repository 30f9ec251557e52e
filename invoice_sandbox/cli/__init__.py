"""The command line: one module per command or group of commands, imported when it is used."""

from __future__ import annotations

import string
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from importlib import import_module
from typing import Any, Final

import click

from invoice_sandbox import __version__

_FIRST: Final = {
    "serve": "Serve the sandbox until it is stopped.",
    "contract": "Print the served contract, or compare the next version.",
    "key": "Print a new API key for 'serve --key'.",
    "init": "Create a project for a contract in DIR.",
    "db": "Prepare a PostgreSQL database.",
    "scenarios": "List, choose, validate and draw scenarios.",
}
_LAST: Final = {
    "users": "Add, list and disable the users of a workspace.",
    "listen": "Forward webhooks to your own receiver, until stopped.",
    "trigger": "Record an event of TYPE and deliver it.",
    "deliveries": "List webhook deliveries, newest first.",
    "coverage": "Show the coverage of the contract.",
    "bundle": "Write a workspace to one file, for a bug report.",
    "acceptance": "Judge a client against an acceptance plan.",
    "fuzz": "Send thousands of generated requests and judge the responses.",
}
"""Commands with a module of their own, each with the first sentence of its help, so that the help
of the whole imports no module. The others come from the contract of the control API."""

_INTERRUPTED: Final = 130
_ANY: Final = 1000
_AFTER_COMMANDS: Final = ("--url", "--key", "--json")


class _Misuse(click.ClickException):
    exit_code = 2


class Command(click.Command):
    """A command that names an argument which it does not take, and what may have been meant."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            given, more, order = self.make_parser(ctx).parse_args(list(args))
        except click.NoSuchOption as error:
            if ctx.info_name == "advance" and error.option_name[1] in {"P", *string.digits}:
                name = error.option_name
                typed = next((one for one in args if one.startswith(name)), name)
                ctx.fail(f"negative duration '{typed}'; no clock goes back")
            raise _no_such_option(self, ctx, error) from None
        if more and not any(one.is_eager for one in order):  # such as --help
            taken = [given.get(one.name) for one in self.params if isinstance(one, click.Argument)]
            line = " ".join([ctx.command_path, *(one for one in taken if isinstance(one, str))])
            meant = next(self._meant(ctx, line, *more), None)
            advice = f"; did you mean '{meant}'?" if meant else ""
            ctx.fail(f"unexpected argument '{more[0]}'{advice}")
        return super().parse_args(ctx, args)

    def _meant(self, ctx: click.Context, line: str, word: str, *more: str) -> Iterator[str]:
        """What was meant by ``requests show ID``, ``deliveries replay ID`` or ``fault add reset``:
        the likeliest command line first. ``line`` is it without the arguments that do not fit."""
        from invoice_sandbox.base.errors import close_words

        options = [one for one in self.params if isinstance(one, click.Option) and not one.hidden]
        named = {name.removeprefix("--"): one for one in options for name in one.opts}
        if word in _SHOWS and word not in named:
            yield line
        for name in close_words(word, named, _ALMOST):
            value = [] if named[name].is_flag else [*more[:1]] or [named[name].metavar or "VALUE"]
            yield " ".join([line, f"--{name}", *value])
        for one in options:
            choices = one.type.choices if isinstance(one.type, click.Choice) else ()
            if word in choices or ((one.metavar or "").endswith("ID") and "_" in word):
                yield f"{line} {one.opts[0]} {word}"
        root = ctx.find_root()
        if isinstance(root.command, click.Group) and root.command.get_command(root, word):
            yield " ".join([root.command_path, word, *more])


_ALMOST: Final = 0.75
_SHOWS: Final = frozenset({"list", "show"})
"""Commands of some groups; another command shows its subject without such a word."""


def _no_such_option(
    command: click.Command, ctx: click.Context, error: click.NoSuchOption
) -> click.NoSuchOption:
    """The error with the option of the command that is close: the dashes make none close."""
    from invoice_sandbox.base.errors import close_words

    known = {
        name.lstrip("-"): name
        for one in command.get_params(ctx)
        if isinstance(one, click.Option) and not one.hidden
        for name in one.opts
    }
    close = [known[name] for name in close_words(error.option_name.lstrip("-"), known)]
    return click.NoSuchOption(error.option_name, possibilities=close, ctx=error.ctx)


def _with_word(ctx: click.Context, command: click.Command, name: str, word: str) -> str:
    """The line of a command of the group, with the word if it takes one."""
    takes = bool(word) and any(isinstance(one, click.Argument) for one in command.params)
    return " ".join([ctx.command_path, name, *([word] if takes else [])])


def _word_after(option: str, args: list[str]) -> str:
    """What was typed as the value of an option; empty if nothing was."""
    line = " ".join(args).partition(option)[2]
    word = line[1:].partition(" ")[0]
    return "" if word.startswith("-") else word


def _begins(command: click.Command, word: str) -> bool:
    return command.get_short_help_str(_ANY).lower().startswith(f"{word.lower()} ")


class Commands(click.Group):
    """A group of commands: suggestions for misspelt ones, and whole sentences in its help."""

    command_class = Command
    used: Callable[[], Iterable[str]] = tuple
    """The names that its command 'use' takes, as far as they are known without a server."""

    def listed(self, ctx: click.Context) -> Mapping[str, click.Command]:
        """Its commands by name, in order."""
        found = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        return {name: one for name, one in found.items() if one is not None}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of the commands."""
        rows = [(name, one.get_short_help_str(_ANY)) for name, one in self.listed(ctx).items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        from invoice_sandbox.base.errors import alternatives

        typed = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            name = error.option_name
            if ctx.parent is None and name in _AFTER_COMMANDS:
                ctx.fail(f"{name} comes after the command, as in 'invoice-sandbox clock {name}'")
            command = self.get_command(ctx, name.lstrip("-"))
            if command is not None:
                meant = _with_word(ctx, command, name.lstrip("-"), _word_after(name, typed))
                ctx.fail(f"no such option '{name}'; did you mean '{meant}'?")
            having = [] if ctx.parent is None else [*self._having(ctx, name, typed)]
            if having:
                ctx.fail(f"no such option '{name}'; did you mean {alternatives(having)}?")
            raise _no_such_option(self, ctx, error) from None

    def _having(self, ctx: click.Context, option: str, typed: list[str]) -> Iterator[str]:
        """Each command that has the option, with the value that was typed, as ``'clock advance --to
        3'``."""
        for name, command in self.listed(ctx).items():
            for one in command.params:
                if option in one.opts and isinstance(one, click.Option) and not one.hidden:
                    word = "" if one.is_flag else _word_after(option, typed)
                    line = " ".join([ctx.command_path, name, option, *([word] if word else [])])
                    yield f"'{line}'"

    def _instead(self, ctx: click.Context, word: str, *more: str) -> str:
        """Advice for the word that the help of a command begins with, such as 'check', then for an
        argument of 'use', or of the only command of the group."""
        from invoice_sandbox.base.errors import close_words

        found = self.listed(ctx)
        begun = [name for name, one in found.items() if _begins(one, word)]
        if len(begun) == 1:
            return f"did you mean '{' '.join([ctx.command_path, *begun, *more])}'?"
        if "use" in found:
            close = close_words(word, self.used())
            if not close:
                line = _with_word(ctx, found["use"], "use", "NAME")
                return f"known: {', '.join(found)}; a name comes after 'use', as in '{line}'"
            return f"did you mean '{_with_word(ctx, found['use'], 'use', close[0])}'?"
        if len(found) != 1:
            return ""
        name = next(iter(found))
        return f"did you mean '{_with_word(ctx, found[name], name, word)}'?"

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        from invoice_sandbox.base.errors import suggestion

        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            known = self.list_commands(ctx)
            advice = suggestion(
                name,
                known,
                self._instead(ctx, *args),
                f"'{ctx.command_path} --help' lists all of them",
            )
            ctx.fail(f"there is no command '{name}'; {advice}")
        return super().resolve_command(ctx, args)


class _Main(Commands):
    """Finds commands by name, and ends each of them in the same way."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return [*dict.fromkeys([*_FIRST, *_control_commands(), *_LAST])]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name in _FIRST or cmd_name in _LAST:
            command: click.Command = getattr(import_module(f"{__name__}.{cmd_name}"), cmd_name)
            return command
        return _control_commands().get(cmd_name)

    def listed(self, ctx: click.Context) -> Mapping[str, click.Command]:
        """Its commands by name, without importing their modules."""
        own = {name: click.Command(name, help=text) for name, text in (_FIRST | _LAST).items()}
        commands = {**own, **_control_commands()}
        return {name: commands[name] for name in self.list_commands(ctx)}

    def invoke(self, ctx: click.Context) -> Any:
        from invoice_sandbox.base.errors import UserError
        from invoice_sandbox.cli.output import plain
        from invoice_sandbox.control.client import SandboxError

        try:
            return super().invoke(ctx)
        except UserError as error:
            raise _Misuse(str(error)) from None
        except OSError as error:
            if error.filename is None:
                raise
            raise _Misuse(f"{error.filename}: {error.strerror}") from None
        except SandboxError as error:
            text = plain(str(error))
            if error.status == HTTPStatus.UNAUTHORIZED:
                text += " Pass a key with --key or INVOICE_SANDBOX_KEY."
            raise click.ClickException(text) from None
        except KeyboardInterrupt:
            sys.exit(_INTERRUPTED)


def _control_commands() -> dict[str, click.Command]:
    from invoice_sandbox.cli.control import control_commands

    return control_commands()


@click.group(cls=_Main, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="invoice-sandbox")
def main() -> None:
    """A sandbox of the Invoice Liquidity API, served from its OpenAPI 3.1 contract.

    Start the server with 'invoice-sandbox serve'. The other commands control a running server:
    clock, scenarios, faults, webhooks, workspaces.

    \b
    invoice-sandbox serve --clock frozen
    invoice-sandbox clock advance P3D
    invoice-sandbox requests --status 400
    """
