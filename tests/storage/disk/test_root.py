"""The root folder: what is refused, what is created, and by whom."""

import contextlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ottla.errors import InvalidValue, TopicExists, UnsupportedFormat
from ottla.storage import open_engine
from ottla.storage.disk import root as disk_root
from ottla.storage.disk.files import Files
from ottla.storage.disk.handles import OpenFiles
from ottla.storage.disk.root import Root, file_system, folder_of
from ottla.testing.filelog import FileLog
from ottla.testing.samples import batch_of, new_topic, values_of


class TestUrls:
    @pytest.mark.parametrize(
        ("url", "folder"),
        [
            ("file:///data/log", "/data/log"),
            ("file:/data/log", "/data/log"),
            ("file://localhost/data", "/data"),
            ("file:///a%20b%23c%3Fd", "/a b#c?d"),
            ("file:///dät/ä", "/dät/ä"),
            ("jsonl:///x", "/x"),
        ],
    )
    def test_a_folder_by_its_whole_path(self, url: str, folder: str) -> None:
        assert folder_of(url) == Path(folder)

    @pytest.mark.parametrize(
        "url",
        ["file:", "file:///", "file:////", "file:relative", "file://host/data", "file://[", "file:///a#b", "file:///a%00b",
         "file:///a\nb", "file:///a?b"],
    )  # fmt: skip
    def test_what_names_no_folder_is_refused(self, url: str) -> None:
        with pytest.raises(InvalidValue, match="whole path"):
            folder_of(url)

    @pytest.mark.parametrize("query", ["sync=never", "network=yes", "network", "=", "a=1&network=allow"])
    def test_unknown_options_are_refused(self, tmp_path: Path, query: str) -> None:
        with pytest.raises(InvalidValue):
            open_engine(f"file://{tmp_path}/log?{query}")
        assert list(tmp_path.iterdir()) == []


class TestStrangers:
    @pytest.mark.parametrize("name", ["changes", "notes.txt", "ottla.jsonl", ".git", "topics"])
    def test_a_folder_of_something_else_is_refused_and_not_touched(self, tmp_path: Path, name: str) -> None:
        """Whatever the strange file is called: one that has the name of ours is not ours."""
        (tmp_path / name).write_text("precious")
        with pytest.raises(InvalidValue, match="not empty"):
            FileLog(tmp_path).open()
        assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {name: "precious"}

    def test_an_empty_folder_and_a_fresh_disk_will_do(self, tmp_path: Path) -> None:
        (tmp_path / "lost+found").mkdir()
        FileLog(tmp_path).open().close()
        assert (tmp_path / "ottla.json").exists()

    def test_what_a_killed_first_opener_left_is_no_stranger(self, tmp_path: Path) -> None:
        (tmp_path / "ottla.json.0123").write_text("{")
        FileLog(tmp_path).create().append([batch_of(b"a")])

    def test_a_file_where_the_folder_should_be(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        for path in (tmp_path / "file", tmp_path / "file" / "log"):
            with pytest.raises(InvalidValue):
                FileLog(path).open()
            with pytest.raises(InvalidValue):
                FileLog(path).open(read_only=True)

    def test_another_engines_folder(self, tmp_path: Path) -> None:
        open_engine(f"jsonl://{tmp_path}").close()
        with pytest.raises(UnsupportedFormat, match="engine jsonl"):
            open_engine(f"file://{tmp_path}")

    @pytest.mark.parametrize(
        "identity", ['{"engine": "file", "format": 2}', '{"engine": "file"}', "[]", "", "null", '"file"', "\xff"]
    )
    def test_another_format_is_refused_never_guessed_at(self, tmp_path: Path, identity: str) -> None:
        FileLog(tmp_path).open().close()
        (tmp_path / "ottla.json").write_bytes(identity.encode("latin-1"))
        for read_only in (True, False):
            with pytest.raises(UnsupportedFormat):
                FileLog(tmp_path).open(read_only=read_only)
        assert (tmp_path / "ottla.json").read_bytes() == identity.encode("latin-1")


def test_the_root_and_its_parents_are_created_for_their_owner_only(tmp_path: Path) -> None:
    """SEEDS M6: a store creates its root."""
    log = FileLog(tmp_path / "a" / "b")
    log.create().append([batch_of(b"x")])
    log.close()
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700
    assert log.root.stat().st_mode & 0o777 == 0o700
    assert (log.root / "ottla.json").stat().st_mode & 0o777 == 0o600
    assert json.loads((log.root / "ottla.json").read_text())["engine"] == "file"


def test_many_first_openers_at_once(tmp_path: Path) -> None:
    """Two threads and more: one makes it, all use it, and it is the same log for all of them."""
    for round_number in range(10):
        logs = [FileLog(tmp_path / str(round_number)) for _ in range(6)]
        errors: list[BaseException] = []
        threads = [threading.Thread(target=open_and_append, args=(log, errors)) for log in logs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        partition = logs[0].partition("shared")
        assert len(values_of(partition)) == 6
        assert not [name for name in os.listdir(logs[0].root) if "~" in name or name.startswith("ottla.json.")]
        for log in logs:
            log.close()


def open_and_append(log: FileLog, errors: list[BaseException]) -> None:
    try:
        engine = log.open()
        with contextlib.suppress(TopicExists):
            new_topic(engine, "shared")
        engine.partition(engine.topic("shared"), 0).append([batch_of(b"x")])
    except BaseException as error:  # noqa: BLE001  (the test shows it)
        errors.append(error)


class TestNetworkFileSystems:
    MOUNTS = """\
22 1 0:20 / / rw - ext4 /dev/sda rw
23 22 0:21 / /mnt/nas rw - nfs4 server:/x rw
24 23 0:22 / /mnt/nas/local rw - ext4 /dev/sdb rw
25 22 0:23 / /mnt/with\\040space rw - fuse.sshfs host: rw
26 22 0:24 / /mnt/ümlaut rw - cifs //host/share rw
"""

    @pytest.fixture(autouse=True)
    def mounts(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "mountinfo").write_text(self.MOUNTS, encoding="utf-8")
        monkeypatch.setattr(disk_root, "_MOUNTS", tmp_path / "mountinfo")

    @pytest.mark.parametrize(
        ("path", "kind"),
        [
            ("/var/lib/ottla", "ext4"),
            ("/mnt/nas/log", "nfs4"),
            ("/mnt/nas", "nfs4"),
            ("/mnt/nasty", "ext4"),
            ("/mnt/nas/local/log", "ext4"),
            ("/mnt/with space/log", "fuse.sshfs"),
            ("/mnt/ümlaut/log", "cifs"),
        ],
    )
    def test_the_kind_is_that_of_the_nearest_mount(self, path: str, kind: str) -> None:
        assert file_system(Path(path)) == kind

    @pytest.mark.parametrize("path", ["/mnt/nas/log", "/mnt/with%20space/log", "/mnt/%C3%BCmlaut/log"])
    def test_they_are_refused(self, path: str) -> None:
        with pytest.raises(InvalidValue, match="network=allow"):
            open_engine(f"file://{path}", read_only=True)

    def test_unless_they_are_allowed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(disk_root, "file_system", lambda _: "nfs")
        with pytest.raises(InvalidValue):
            open_engine(f"file://{tmp_path}/log")
        open_engine(f"file://{tmp_path}/log?network=allow").close()

    def test_a_system_that_does_not_tell(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(disk_root, "_MOUNTS", tmp_path / "missing")
        assert file_system(Path("/")) == ""


class TestChanges:
    """The counter that tells every process to look at the topics again."""

    @pytest.fixture
    def root(self, tmp_path: Path) -> Root:
        return Root(Files(), tmp_path / "log", "file", read_only=False, allow_network=False)

    def test_it_is_odd_while_a_change_is_under_way(self, root: Root) -> None:
        before = root.changes()
        with root.changing("test"):
            assert root.changes() % 2 == 1
        assert root.changes() % 2 == 0
        assert root.changes() > before

    def test_a_change_that_was_refused_is_over_too(self, root: Root) -> None:
        """Otherwise nobody could trust a cache until the next change."""
        with pytest.raises(KeyError), root.changing("test"):
            raise KeyError
        assert root.changes() % 2 == 0

    def test_creating_what_exists_costs_readers_nothing(self, tmp_path: Path) -> None:
        log = FileLog(tmp_path / "log")
        log.create()
        engine = log.open()
        with pytest.raises(TopicExists):
            new_topic(engine)
        assert engine.topic("deliveries") is engine.topic("deliveries")
        log.close()

    def test_a_descriptor_that_was_evicted_meanwhile_is_not_written_to(self, root: Root, tmp_path: Path) -> None:
        """Its number may be that of another file by then."""
        root.handles = OpenFiles(Files(), os.O_RDWR, limit=1)
        root._lock._open = root.handles
        other = tmp_path / "other"
        other.write_bytes(b"precious data")
        with root.changing("test"):
            held = [root.handles.get(other)]
        assert other.read_bytes() == b"precious data"
        assert root.changes() % 2 == 0
        del held


MANY_TOPICS = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from pathlib import Path
from ottla.testing.filelog import FileLog
from ottla.testing.samples import batch_of, new_topic, values_of
log = FileLog(Path(sys.argv[1]))
engine = log.open()
topics = [new_topic(engine, f"topic-{n}", segment_bytes="300B", partitions=2) for n in range(150)]
for n in range(4):
    for topic in topics:
        for index in range(2):
            engine.partition(topic, index).append([batch_of(b"%d" % n * 100)])
for topic in topics[::10]:
    engine.partition(topic, 0).compact()
for topic in topics:
    for index in range(2):
        assert len(values_of(engine.partition(topic, index))) == 4
assert list(engine.verify()) == []
for topic in topics:
    engine.delete_topic(topic.name)
wide = new_topic(engine, "wide", partitions=200)
for index in range(200):
    engine.partition(wide, index).append([batch_of(b"x")])
engine.delete_topic("wide")
log.close()
print("done")
"""


def test_many_topics_with_few_descriptors(tmp_path: Path) -> None:
    """300 partitions, several segments each, in a process that may have 64 files open."""
    script = [sys.executable, "-c", MANY_TOPICS, str(tmp_path / "log")]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.stdout == "done\n", done.stderr
