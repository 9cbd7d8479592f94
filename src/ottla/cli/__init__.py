"""The command line: one module for each command, over the same log that programs use.

`main` is the program `ottla`; `ottla.cli.mkfk` has the programs of the original MiniKafka. Everything that a
command prints for scripts goes to standard output, everything that is said to a person goes to standard error.
"""

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the program with *arguments*, or those that it was started with, and exit."""
    for package in ("typer", "rich"):
        if find_spec(package) is None:
            sys.stderr.write(f"ottla: the command line needs the package {package!r}: pip install 'ottla[cli]'\n")
            sys.exit(1)
    from ottla.cli.app import run  # noqa: PLC0415  (it needs what was just looked for)

    sys.exit(run(sys.argv[1:] if arguments is None else arguments))
