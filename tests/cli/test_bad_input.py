"""Whatever is typed wrong gets one clear sentence and a code that is not 0, and changes nothing."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ottla

if TYPE_CHECKING:
    from tests.cli.conftest import Program

BAD = [
    # the program itself
    ("produc t", 2, "No such command 'produc'. Did you mean 'produce'?"),
    ("--nothing", 2, "No such option"),
    # produce
    ("produce", 2, "name the topic"),
    ("produce a/b", 2, "topic name 'a/b' is not valid"),
    ("produce t --partition 9", 3, "topic 't' has no partition 9"),
    ("produce t --partition -1", 2, "--partition"),
    ("produce t --file nothing.txt", 1, "nothing.txt: No such file or directory"),
    ("produce t --header x", 2, "write it as name=value"),
    ("produce t --key a --key-field b", 2, "a message has one key"),
    ("produce t --whole --events", 2, "read lines"),
    ("produce t --events --key-separator ,", 2, "use --key-field"),
    ("produce t --key-separator ''", 2, "at least one character"),
    ("produce t --delimiter ''", 2, "at least one character"),
    ("produce t --rate 0", 2, "--rate"),
    ("produce t --compression gzip", 2, "--compression"),
    ("produce new --no-create", 3, "topic 'new' does not exist"),
    ("produce t --url ftp://x", 2, "there is no storage engine for 'ftp'"),
    ("produce t --url file://host/x", 2, "name a folder by its whole path"),
    ("produce t --url ''", 2, "URL '' is not valid"),
    # consume and tail
    ("consume", 2, "Missing argument 'TOPIC'"),
    ("consume nothing", 3, "topic 'nothing' does not exist"),
    ("consume t --from yesterday", 2, "start 'yesterday' is not valid"),
    ("consume t --from 0", 2, "start 0 is not valid"),
    ("consume t --from 2030-01-31T12:00:00", 2, "say the time zone"),
    ("consume t --partition 9", 3, "topic 't' has no partition 9"),
    ("consume t --count 0", 2, "--count"),
    ("consume t --count many", 2, "--count"),
    ("consume t --timeout soon", 2, "--timeout 'soon' is not valid"),
    ("consume t --group a/b", 2, "group name 'a/b' is not valid"),
    ("consume t --format yaml", 2, "choose raw, json, events, or a template"),
    ("consume t --format {nothing}", 2, "in braces it knows {topic}"),
    ("consume t --format {value.__class__}", 2, "in braces it knows {topic}"),
    ("consume t --format {value", 2, "write a brace itself twice"),
    ("consume t --json --events", 2, "choose one of"),
    ("consume t --url nowhere", 2, "there is no log in '"),
    ("tail nothing", 3, "topic 'nothing' does not exist"),
    ("tail t --partition 9", 3, "topic 't' has no partition 9"),
    # topics
    ("topics", 2, ""),
    ("topics create t", 1, "topic 't' already exists"),
    ("topics create a/b", 2, "topic name 'a/b' is not valid"),
    ("topics create new --partitions 0", 2, "partitions 0 is not valid"),
    ("topics create new --partitions many", 2, "--partitions"),
    ("topics create new --retention never", 2, "retention 'never' is not valid"),
    ("topics create new --partitioner best", 2, "partitioner"),
    ("topics create new --sync sometimes", 2, "choose always, interval or never"),
    ("topics create new --set nothing", 2, "write it as name=value"),
    ("topics create new --set colour=blue", 2, "topic setting 'colour' is not valid"),
    ("topics create new --set segment_bytes=big", 2, "segment_bytes 'big' is not valid"),
    ("topics describe nothing", 3, "topic 'nothing' does not exist"),
    ("topics alter t", 2, "name a setting"),
    ("topics alter t --partitions 1", 2, "partitions can be added, never removed"),
    ("topics alter nothing --retention 7d", 3, "topic 'nothing' does not exist"),
    ("topics add-partitions t 1", 2, "partitions can be added, never removed"),
    ("topics delete t", 2, "say --yes"),
    ("topics delete nothing --yes", 3, "topic 'nothing' does not exist"),
    ("topics trim t", 2, "--before"),
    ("topics trim t --before latest", 2, "say --yes"),
    ("topics trim t --before 2 --yes", 2, "topic 't' has 2 partitions: say which one"),
    ("topics delete t --yes --url nowhere", 2, "there is no log in '"),
    # groups
    ("groups describe nobody", 3, "group 'nobody' has stored no position"),
    ("groups delete nobody --yes", 3, "group 'nobody' has stored no position"),
    ("groups reset g nothing --to latest", 3, "topic 'nothing' does not exist"),
    ("groups reset g t --to someday", 2, "start 'someday' is not valid"),
    ("groups reset a/b t --to latest", 2, "group name 'a/b' is not valid"),
    # care
    ("copy", 2, "Missing argument 'FROM'"),
    ("copy LOG", 2, "Missing argument 'TO'"),
    ("copy LOG new nothing", 3, "topic 'nothing' does not exist"),
    ("copy nowhere new", 2, "there is no log in '"),
    ("copy LOG LOG", 1, "copied onto itself"),
    ("copy LOG new --from someday", 2, "start 'someday' is not valid"),
    ("verify nowhere", 2, "there is no log in '"),
    ("verify memory:", 2, "stores nothing that could be checked"),
    ("repair nowhere", 2, "there is no log in '"),
    ("compact LOG nothing", 3, "topic 'nothing' does not exist"),
    ("compact nowhere", 2, "there is no log in '"),
    ("bench --size 0", 2, "--size"),
    ("bench LOG --sync sometimes", 2, "choose always, interval or never"),
]


@pytest.mark.parametrize(("typed", "code", "says"), BAD, ids=[typed for typed, _, _ in BAD])
def test_a_sentence_and_no_change(
    program: "Program", log: ottla.Log, folder: Path, typed: str, code: int, says: str
) -> None:
    log.create_topic("t", partitions=2)
    log.append("t", [b"one", b"two"])
    before = _everything(log)
    arguments = [{"LOG": str(folder), "''": ""}.get(word, word) for word in typed.split()]
    ended = program(*arguments, stdin=b"a line\n")
    assert ended.code == code
    assert says in ended.err
    complaints = [line for line in ended.err.splitlines() if not line.startswith("ottla: sent 0 messages")]
    if code and says:
        assert len(complaints) == 1, ended.err
        assert complaints[0].startswith("ottla: ")
    assert "Traceback" not in ended.err
    assert "should not happen" not in ended.err
    assert _everything(log) == before
    assert not list(folder.parent.glob("nowhere*"))


def _everything(log: ottla.Log) -> object:
    """All topics with their settings and messages, and all groups."""
    return [(topic, list(log.read(topic.name))) for topic in log.topics()], log.groups()
