"""Row M13: a client in another language, made from the `.proto` alone, and Python see the same messages."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import ottla
from ottla.model import Message
from ottla.server import Server

ROOT = Path(__file__).parents[2]
NODE = ROOT / "examples" / "node"
INSTALL_S = 200
OFFLINE = re.compile("ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ENETUNREACH|ETIMEDOUT|ERR_SOCKET_TIMEOUT")


def installed(folder: Path) -> Path:
    """The example with its packages, beside a copy of the `.proto`; in a folder of its own."""
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("the Node example needs Node 18 or newer, with npm")
    shutil.copytree(ROOT / "proto", folder / "proto")
    example = folder / "examples" / "node"
    shutil.copytree(NODE, example, ignore=shutil.ignore_patterns("node_modules"))
    quick = ["--prefer-offline", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000"]
    command = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", *quick]
    done = subprocess.run(command, cwd=example, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    if done.returncode and (why := OFFLINE.search(done.stderr)):
        pytest.skip(f"the Node example needs its packages, and npm cannot get them here ({why[0]})")
    assert done.returncode == 0, done.stderr
    return example


def run(example: Path, *arguments: str) -> tuple[int, list[str], str]:
    command = ["node", "client.mjs", *arguments]
    done = subprocess.run(command, cwd=example, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout.splitlines(), done.stderr


@pytest.mark.timeout(INSTALL_S + 100)
def test_node_and_python_read_what_the_other_wrote(tmp_path: Path) -> None:
    """One test, because installing takes longest: a topic of Python's, one of Node's, and no server at all."""
    example = installed(tmp_path)
    with ottla.open("memory:") as log:
        log.append("shared", ["grüße".encode(), None], keys=[None, b"k"], headers=[{"from": b"python"}, {}])
        server = Server(log)
        address = str(server.start("127.0.0.1:0"))
        with server:
            shared, fresh = run(example, address, "shared"), run(example, address, "fresh")

        assert shared == (0, ["shared is there already", *SHARED], "")
        assert fresh == (0, ["created fresh", *FRESH], "")
        assert log.topic("fresh").settings.retention_ms == 7 * 86_400_000
        assert [plain(message) for message in log.read("fresh")] == WRITTEN
        assert [plain(message) for message in log.read("shared", start=3)] == WRITTEN

    code, said, error = run(example, address, "fresh")
    assert (code, said) == (1, [])
    assert "UNAVAILABLE" in error


def plain(message: Message) -> tuple[object, ...]:
    return message.key, message.value, message.headers


WRITTEN = [
    (b"melbourne", b"truck 1021 on time", ()),
    (b"perth", b"truck 7 late", (("by", b"40m"),)),
    (None, b"", ()),
    (b"a tombstone", None, (("none", None),)),
    (None, b"while it was waiting", ()),
]
UNKNOWN = (
    'NOT_FOUND UnknownTopic {"topic":"no-such-topic"}: '
    "topic 'no-such-topic' does not exist: create it with create_topic, or post to it first"
)
SHARED = [
    "landed at 3 4 5 6",
    "sent again, still at 3 4 5 6",
    '0/1 key none value "grüße" headers [from="python"]',
    '0/2 key "k" value none headers []',
    '0/3 key "melbourne" value "truck 1021 on time" headers []',
    '0/4 key "perth" value "truck 7 late" headers [by="40m"]',
    '0/5 key none value "" headers []',
    '0/6 key "a tombstone" value none headers [none=none]',
    "following from 7",
    '0/7 key none value "while it was waiting" headers []',
    UNKNOWN,
]
FRESH = [
    "landed at 1 2 3 4",
    "sent again, still at 1 2 3 4",
    '0/1 key "melbourne" value "truck 1021 on time" headers []',
    '0/2 key "perth" value "truck 7 late" headers [by="40m"]',
    '0/3 key none value "" headers []',
    '0/4 key "a tombstone" value none headers [none=none]',
    "following from 5",
    '0/5 key none value "while it was waiting" headers []',
    UNKNOWN,
]


def test_the_example_asks_for_exact_versions_and_no_more() -> None:
    package = json.loads((NODE / "package.json").read_text())
    assert sorted(package["dependencies"]) == ["@grpc/grpc-js", "@grpc/proto-loader"]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in package["dependencies"].values())
