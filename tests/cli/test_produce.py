"""`ottla produce`: lines, files, keys, headers, events (row W1)."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ottla

if TYPE_CHECKING:
    from tests.cli.conftest import Program


def test_each_line_is_a_message_and_the_last_needs_no_end(program: "Program", log: ottla.Log) -> None:
    program("produce", "t", stdin=b"one\n\nthree\r\nlast").done()
    assert log.read("t").values() == [b"one", b"", b"three\r", b"last"]


def test_nothing_to_send_makes_no_topic(program: "Program", log: ottla.Log) -> None:
    assert program("produce", "t").done().err == "ottla: sent 0 messages\n"
    assert log.topics() == []


def test_bytes_of_any_kind_go_through(program: "Program", log: ottla.Log) -> None:
    value = bytes(range(256)) * 5000
    program("produce", "t", "--whole", stdin=value).done()
    program("produce", "t", "--delimiter", r"\0", stdin=b"a\nb\0c\0").done()
    assert log.read("t").values() == [value, b"a\nb", b"c"]


def test_files_are_read_in_order_by_lines_or_whole(program: "Program", log: ottla.Log, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"1\n2\n")
    second.write_bytes(b"3")
    program("produce", "t", "-f", str(first), "-f", str(second)).done()
    program("produce", "t", "-f", str(first), "-f", str(second), "--whole").done()
    assert log.read("t").values() == [b"1", b"2", b"3", b"1\n2\n", b"3"]


def test_a_missing_file_sends_nothing_of_the_others(program: "Program", log: ottla.Log, tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"1\n")
    assert program("produce", "t", "-f", "there", "-f", "gone").code == 1
    assert log.topics() == []


def test_keys_headers_and_partition(program: "Program", log: ottla.Log) -> None:
    log.create_topic("t", partitions=3)
    headers = ["-H", "a=1", "--header", "b=x=y", "-H", "c="]
    program("produce", "t", "--key", "k", *headers, "--partition", "2", stdin=b"v\n").done()
    (message,) = log.read("t", 2)
    assert (message.key, message.value) == (b"k", b"v")
    assert message.headers == (("a", b"1"), ("b", b"x=y"), ("c", b""))


def test_a_key_in_front_of_each_line(program: "Program", log: ottla.Log) -> None:
    program("produce", "t", "--key-separator", r"\t", stdin=b"k1\tv1\n\tv2\nk3\tv\t3\n").done()
    assert [(m.key, m.value) for m in log.read("t")] == [(b"k1", b"v1"), (b"", b"v2"), (b"k3", b"v\t3")]


def test_a_line_without_its_separator_stops_there(program: "Program", log: ottla.Log) -> None:
    """What came before is sent, and the summary says how much that was."""
    ended = program("produce", "t", "--key-separator", ",", stdin=b"a,1\nb,2\nnothing\nc,3\n")
    assert ended.code == 1
    sent, complaint = ended.err.splitlines()
    assert sent == "ottla: sent 2 messages (t is at 3)"
    assert complaint.startswith("ottla: line 3: line b'nothing' is not valid")
    assert log.read("t").values() == [b"1", b"2"]


def test_what_cannot_be_sent_may_be_left_out(program: "Program", log: ottla.Log) -> None:
    log.create_topic("t", max_message_bytes=10)
    stdin = b"a,1\nnothing\nb," + b"x" * 50 + b"\nc,3\n"
    ended = program("produce", "t", "--key-separator", ",", "--skip-invalid", "--json", stdin=stdin).done()
    assert log.read("t").values() == [b"1", b"3"]
    assert ended.json["messages"] == 2
    assert ended.json["skipped"] == 2
    assert ended.json["next"] == {"t": {"0": 3}}
    assert "line 2 is left out" in ended.err
    assert "message 2 of the input is left out" in ended.err


def test_a_message_that_is_too_large_stops_there(program: "Program", log: ottla.Log) -> None:
    log.create_topic("t", max_message_bytes=10)
    ended = program("produce", "t", stdin=b"short\n" + b"x" * 50 + b"\nshort\n")
    assert ended.code == 1
    assert "message 2 of the input: a message of 50 bytes is over the limit of 10" in ended.err
    assert log.read("t").values() == [b"short"]


def test_a_line_without_end_is_not_collected_for_ever(program: "Program", log: ottla.Log) -> None:
    log.create_topic("t", max_message_bytes=10)
    assert "a line of 1,048,576 bytes is over the limit of 10" in program("produce", "t", stdin=b"x" * 4_000_000).err
    assert "over the limit of 10" in program("produce", "t", "--whole", stdin=b"x" * 4_000_000).err
    assert log.bounds("t").next == 1


def test_a_key_from_a_field_of_json(program: "Program", log: ottla.Log) -> None:
    lines = [b'{"truck": 7, "at": {"depot": "north"}}', b'{"truck": 8}']
    program("produce", "t", "--key-field", "truck", stdin=b"\n".join(lines)).done()
    program("produce", "t", "--key-field", "at.depot", stdin=b"\n\n".join(lines)).done()
    assert [message.key for message in log.read("t")] == [b"7", b"8", b"north", None]
    assert log.read("t").values() == lines + lines


def test_everything_is_counted_with_many_partitions(program: "Program", log: ottla.Log) -> None:
    log.create_topic("t", partitions=3)
    ended = program("produce", "t", "--json", "-q", stdin=b"x\n" * 3000).done()
    assert ended.json["messages"] == 3000
    assert ended.json["next"] == {"t": {str(p): log.bounds("t", p).next for p in range(3)}}
    assert ended.err == ""


def test_compressed_on_request(program: "Program", log: ottla.Log) -> None:
    program("produce", "t", "--compression", "zstd", stdin=b"same\n" * 10_000).done()
    assert log.describe("t").bytes < 30_000
    assert log.read("t").values() == [b"same"] * 10_000


def test_at_a_rate(program: "Program", log: ottla.Log) -> None:
    """No faster than asked for; how much slower is the machine's business."""
    started = time.monotonic()
    program("produce", "t", "--rate", "200", stdin=b"x\n" * 61).done()
    assert time.monotonic() - started >= 0.25
    assert log.bounds("t").next == 62


class TestEvents:
    """Row W1."""

    def test_what_is_missing_is_filled_in(self, program: "Program", log: ottla.Log) -> None:
        program("produce", "t", "--events", stdin=b'{"message": "hi", "truck": 7}\n').done()
        (message,) = log.read("t")
        event = json.loads(message.value or b"")
        assert list(event) == ["event_id", "topic_name", "timestamp", "message", "truck"]
        assert (event["topic_name"], event["message"], event["truck"]) == ("t", "hi", 7)
        assert len(event["event_id"]) == 32
        assert event["timestamp"].endswith("Z")

    def test_what_is_there_is_kept(self, program: "Program", log: ottla.Log) -> None:
        event = {
            "event_id": "e1",
            "topic_name": "deliveries",
            "timestamp": "2030-01-31T12:00:00.250+01:00",
            "message": {"text": "ünïcode"},
            "truck": 7,
            "metadata": {"source": "depot 4"},
        }
        program("produce", "--events", stdin=json.dumps(event).encode()).done()
        (message,) = log.read("deliveries")
        assert json.loads(message.value or b"") == event
        assert message.timestamp_ms == 1896087600250

    @pytest.mark.parametrize("timestamp", [1896087600, 1896087600000, 1896087600.0, "2030-01-31T11:00:00Z"])
    def test_a_time_in_any_of_its_ways(self, program: "Program", log: ottla.Log, timestamp: Any) -> None:
        program("produce", "t", "--events", stdin=json.dumps({"message": "", "timestamp": timestamp}).encode()).done()
        (message,) = log.read("t")
        assert message.timestamp_ms == 1896087600000

    def test_each_goes_to_its_own_topic_in_order(self, program: "Program", log: ottla.Log) -> None:
        lines = [{"topic_name": f"t{index % 2}", "message": index, "id": f"k{index}"} for index in range(10)]
        stdin = b"\n".join(json.dumps(line).encode() for line in lines)
        ended = program("produce", "--events", "--key-field", "id", "--json", stdin=stdin).done()
        assert ended.json["next"] == {"t0": {"0": 6}, "t1": {"0": 6}}
        for topic, expected in (("t0", [0, 2, 4, 6, 8]), ("t1", [1, 3, 5, 7, 9])):
            messages = log.read(topic)
            assert [json.loads(value or b"")["message"] for value in messages.values()] == expected
            assert [message.key for message in messages] == [b"k%d" % number for number in expected]

    @pytest.mark.parametrize(
        ("line", "says"),
        [
            (b"{", "JSON b'{' is not valid"),
            (b"\xff", "JSON"),
            (b"[1]", "write an object"),
            (b"{}", 'it has no "message"'),
            (b'{"message": 1, "topic_name": "other"}', "the command says 't'"),
            (b'{"message": 1, "topic_name": 7}', "the command says 't'"),
            (b'{"message": 1, "timestamp": "2030-01-31T12:00:00"}', "say the time zone"),
            (b'{"message": 1, "timestamp": "soon"}', "write a time such as"),
            (b'{"message": 1, "timestamp": true}', "write a time such as"),
            (b'{"message": 1, "timestamp": 1e300}', "write a time such as"),
        ],
    )
    def test_what_is_no_event_stops_there(self, program: "Program", log: ottla.Log, line: bytes, says: str) -> None:
        ended = program("produce", "t", "--events", stdin=b'{"message": 0}\n\n' + line + b'\n{"message": 2}\n')
        assert ended.code == 1
        assert "ottla: line 3: " in ended.err
        assert says in ended.err
        assert log.bounds("t").next == 2

    def test_an_event_without_any_topic(self, program: "Program") -> None:
        ended = program("produce", "--events", stdin=b'{"message": 1}')
        assert ended.code == 1
        assert "the command names no topic" in ended.err

    def test_what_is_consumed_as_events_can_be_produced_again(self, program: "Program", log: ottla.Log) -> None:
        log.append("t", [b"plain", b"\xff", None], keys=[b"k", None, None], headers=[{"h": b"1"}, {}, {}])
        log.append("t", [b'{"message": "event", "event_id": "e"}'])
        events = program("consume", "t", "--events").done()
        first, second, third, fourth = events.json_lines
        assert first["event_id"] == "t-0-1"
        assert (first["message"], first["metadata"]) == ("plain", {"key": "k", "h": "1"})
        assert second["message_base64"] == "/w=="
        assert third["message"] is None
        assert (fourth["event_id"], fourth["message"], fourth["topic_name"]) == ("e", "event", "t")
        program("produce", "--events", stdin=events.out).done()
        assert program("consume", "t", "--events", "--from", "5").json_lines == events.json_lines
