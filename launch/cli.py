"""The `bandsmith` command: its app, and the mapping from errors to one line on stderr and an exit code."""

import sys
import warnings
from collections.abc import Sequence

import typer

from launch.commands.account import account
from launch.commands.calibrate import calibrate
from launch.commands.certify import certify
from launch.commands.compare import compare
from launch.commands.dashboard import dashboard
from launch.commands.export import export
from launch.commands.report import report
from launch.commands.submit import submit
from launch.commands.tune import tune
from launch.commands.verify import verify
from search_spaces.errors import BandsmithError, InputError

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
"""Exit codes; the last is the shell's convention for Ctrl-C."""

app = typer.Typer(
    name="bandsmith",
    help="Searches, certifies and writes the best correlated-noise strategy for a private training run.",
    epilog="Exit codes: 0 done, 1 failed, 2 bad input. With --json, stdout holds one JSON document; logs and progress go to stderr.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
for _command in (tune, compare, account, calibrate, certify, verify, export, report, dashboard, submit):
    app.command(context_settings={"show_default": True})(_command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code; deliberate errors are printed as one line, programming mistakes keep their traceback."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("default", module=r"(accountants|engine|launch|search_spaces)\b")
        warnings.showwarning = _print_warning
        return _run(arguments or ["--help"])


def _run(arguments: Sequence[str]) -> int:
    try:
        code = app(args=arguments, prog_name="bandsmith", standalone_mode=False)
    except typer.TyperException as error:
        return _fail(error.format_message(), BAD_INPUT)
    except typer.Abort:
        return INTERRUPTED
    except InputError as error:
        return _fail(str(error), BAD_INPUT)
    except BandsmithError as error:
        return _fail(str(error), FAILED)
    except OSError as error:
        return _fail(str(error), FAILED)
    return code or DONE


def _print_warning(message: Warning | str, *_: object, **__: object) -> None:
    print("Warning: " + " ".join(str(message).split()), file=sys.stderr)


def _fail(message: str, code: int) -> int:
    print("Error: " + " ".join(message.split()).rstrip(".") + ".", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
