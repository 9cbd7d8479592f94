"""Run the benchmarks: `python -m benchmarks [batch file producer scale] [--quick] [--json FILE]`."""

import argparse
import sys
from importlib import import_module
from pathlib import Path

from benchmarks.rows import Row, machine, shown, write_block, write_json

DOCS = Path(__file__).parent.parent / "docs" / "benchmarks.md"
NAMES = ("batch", "file", "producer", "scale")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure ottla.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"which to run, of {', '.join(NAMES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="smaller and rougher")
    parser.add_argument("--docs", action="store_true", help="put the table into docs/benchmarks.md")
    parser.add_argument("--json", type=Path, default=Path("build/bench.json"), help="where the figures go")
    options = parser.parse_args()
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"there is no benchmark {unknown.pop()!r}: choose from {', '.join(NAMES)}")
    rows: list[Row] = []
    for name in options.names or NAMES:
        print(f"{name} …", file=sys.stderr, flush=True)
        rows += import_module(f"benchmarks.bench_{name}").run(quick=options.quick)
    print(shown(rows))
    write_json(rows, options.json)
    if options.docs:
        write_block(DOCS, "library", f"{machine()}\n\n{shown(rows)}")
    print(f"\nalso in {options.json}", file=sys.stderr)


if __name__ == "__main__":
    main()
