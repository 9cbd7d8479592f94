"""Run the peers: `python -m benchmarks.peers [names] [--quick] [--docs] [--json FILE] [--folder FOLDER]`."""

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from benchmarks.peers.measure import FULL, QUICK
from benchmarks.peers.report import file_system, machine, markdown, write_json
from benchmarks.peers.running import PEERS, run
from benchmarks.rows import write_block

_DOCS = Path(__file__).parents[2] / "docs" / "benchmarks.md"
_IN_MEMORY = {"tmpfs", "ramfs"}


def main() -> None:
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    facts = machine(options.folder)
    results = []
    for name in options.names or PEERS:
        print(f"{name} …", file=sys.stderr, flush=True)
        results.append(run(name, QUICK if options.quick else FULL, options.folder))
        if results[-1].not_run:
            print(f"  not run: {results[-1].not_run}", file=sys.stderr)
    table = markdown(results, facts)
    print(table)
    write_json(results, facts, options.json)
    print(f"\nalso in {options.json}", file=sys.stderr)
    if options.docs:
        write_block(_DOCS, "peers", table)
        print("and in docs/benchmarks.md", file=sys.stderr)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description="Measure ottla beside its peers.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"which to run, of {', '.join(PEERS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="smaller and rougher")
    parser.add_argument("--docs", action="store_true", help="put the table into docs/benchmarks.md")
    parser.add_argument("--json", type=Path, default=Path("build/peers.json"), help="where the figures go")
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()), help="where the data goes meanwhile"
    )
    options = parser.parse_args()
    if unknown := set(options.names) - set(PEERS):
        parser.error(f"there is no peer {unknown.pop()!r}: choose from {', '.join(PEERS)}")
    if options.docs and (options.quick or options.names):
        parser.error("--docs publishes a whole run: leave out --quick and the names")
    if (kind := file_system(options.folder)) in _IN_MEMORY:
        parser.error(f"{options.folder} is in memory ({kind}), where nothing is synced: choose another with --folder")
    return options


if __name__ == "__main__":
    main()
