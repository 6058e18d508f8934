"""``python -m specdec.training COMMAND …``: each command is a module with ``add_arguments(parser)`` and ``run(args)``."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

COMMANDS = {
    "transformer": "specdec.training.ship",
    "distil": "specdec.training.distil",
}
"""{command: its module}. A module is imported when its command is called: it may need the extra."""

EXTRA = ("torch", "transformers", "tqdm")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; exits with a message if it needs the extra and that is not installed."""
    parser = argparse.ArgumentParser(
        prog="python -m specdec.training",
        description="Train the models that the package ships.",
        epilog="COMMAND --help says what a command takes.",
    )
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND", help=" or ".join(COMMANDS))
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="…", help="the command's own arguments")
    chosen = parser.parse_args(arguments)
    try:
        command = import_module(COMMANDS[chosen.command])
    except ModuleNotFoundError as error:
        if error.name not in EXTRA:
            raise
        sys.exit(f'{error.name} is not installed, and training needs it: pip install "specdec[training]"')
    purpose = (command.__doc__ or "").partition("\n")[0]
    inner = argparse.ArgumentParser(prog=f"{parser.prog} {chosen.command}", description=purpose)
    command.add_arguments(inner)
    command.run(inner.parse_args(chosen.arguments))


if __name__ == "__main__":
    main()
