"""`ottla consume` and `ottla tail`: from anywhere, in any format, to the end or beyond."""

import json
from typing import TYPE_CHECKING

import pytest

import ottla
from ottla import ManualClock

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Program


@pytest.fixture
def filled(log: ottla.Log) -> ottla.Log:
    log.append(
        "t",
        [b"one", b"two\xff", None],
        keys=[b"k", None, b""],
        headers=[{"h": b"1", "i": None}, {}, {}],
        timestamps=[1896087600000, 1896087600001, 1896087600002],
    )
    return log


@pytest.mark.usefixtures("filled")
class TestFormats:
    def test_raw_is_the_bytes_with_an_end_to_each(self, program: "Program") -> None:
        assert program("consume", "t").done().out == b"one\ntwo\xff\n\n"
        assert program("consume", "t", "--delimiter", r"\0").done().out == b"one\0two\xff\0\0"
        assert program("consume", "t", "-n", "1", "--delimiter", "").done().out == b"one"

    def test_json_has_everything(self, program: "Program") -> None:
        first, second, third = program("consume", "t", "--json").done().json_lines
        assert first == {
            "topic": "t",
            "partition": 0,
            "number": 1,
            "timestamp": "2030-01-31T11:00:00.000Z",
            "key": "k",
            "value": "one",
            "headers": [{"name": "h", "value": "1"}, {"name": "i", "value": None}],
        }
        assert (second["key"], second["value_base64"]) == (None, "dHdv/w==")
        assert "value" not in second
        assert (third["key"], third["value"]) == ("", None)

    def test_json_in_either_way_is_the_same(self, program: "Program") -> None:
        assert program("consume", "t", "--json").out == program("consume", "t", "--format", "json").out
        assert program("consume", "t", "--events").out == program("consume", "t", "--format", "events").out

    def test_a_template_lets_bytes_through(self, program: "Program") -> None:
        ended = program(
            "consume", "t", "--format", r"{{{number}}}\t{timestamp_ms} {key}={value} {headers} {size}"
        ).done()
        lines = ended.out.split(b"\n")
        assert lines[0] == b"{1}\t1896087600000 k=one h=1,i= 3"
        assert lines[1] == b"{2}\t1896087600001 =two\xff  4"

    def test_every_field_of_a_template(self, program: "Program") -> None:
        words = "{topic}/{partition}:{offset} {timestamp}"
        assert program("consume", "t", "--format", words).lines[0] == "t/0:1 2030-01-31T11:00:00.000Z"


class TestWhere:
    def test_from_a_number_a_time_and_the_ends(self, program: "Program", folder: "Path") -> None:
        clock = ManualClock(1896087600000)
        with ottla.open(f"file://{folder}", clock=clock) as log:
            for value in (b"one", b"two", b"three"):
                log.append("t", [value])
                clock.advance(60_000)
        assert program("consume", "t", "--from", "2").lines == ["two", "three"]
        assert program("consume", "t", "--from", "2030-01-31T11:01:00Z").lines == ["two", "three"]
        assert program("consume", "t", "--from", "earliest").lines == ["one", "two", "three"]
        assert program("consume", "t", "--from", "latest").done().lines == []
        assert program("consume", "t", "--from", "1s ago").done().lines == ["one", "two", "three"]

    def test_below_the_oldest_kept_it_says_what_is_gone(self, program: "Program", log: ottla.Log) -> None:
        log.append("t", [b"%d" % number for number in range(1, 11)])
        log.trim("t", before=8)
        assert program("consume", "t").lines == ["8", "9", "10"]
        ended = program("consume", "t", "--from", "3").done()
        assert ended.lines == ["8", "9", "10"]
        assert ended.err == "ottla: messages 3 to 7 of t/0 were removed before they were read\n"

    def test_a_topic_emptied_by_trimming(self, program: "Program", log: ottla.Log) -> None:
        log.append("t", [b"x"] * 5)
        log.trim("t", before="latest")
        assert program("consume", "t").done().out == b""
        assert program("consume", "t", "--from", "2").done().out == b""

    def test_some_partitions(self, program: "Program", log: ottla.Log) -> None:
        log.create_topic("t", partitions=3)
        for partition in range(3):
            log.append("t", [b"%d" % partition], partition=partition)
        assert sorted(program("consume", "t").lines) == ["0", "1", "2"]
        assert program("consume", "t", "-p", "1").lines == ["1"]
        assert sorted(program("consume", "t", "-p", "2", "-p", "0").lines) == ["0", "2"]


class TestHowLong:
    def test_exactly_as_many_as_asked_for(self, program: "Program", log: ottla.Log) -> None:
        log.append("t", [b"%d" % number for number in range(100_000)])
        assert program("consume", "t", "-n", "70000").done().lines == [str(number) for number in range(70_000)]

    def test_fewer_than_asked_for_is_told_by_the_code(self, program: "Program", log: ottla.Log) -> None:
        log.append("t", [b"one"])
        ended = program("consume", "t", "--count", "2")
        assert (ended.code, ended.lines) == (3, ["one"])
        assert program("consume", "t", "--count", "2", "--timeout", "50ms").code == 3
        assert program("consume", "t", "--count", "1", "--timeout", "50ms").code == 0

    def test_a_time_out_ends_it_without_an_error(self, program: "Program", log: ottla.Log) -> None:
        log.append("t", [b"one"])
        assert program("consume", "t", "--timeout", "0.05").done().lines == ["one"]
        assert program("consume", "t", "--follow", "--timeout", "0").done().lines == ["one"]


class TestGroups:
    def test_it_goes_on_where_the_group_stopped(self, program: "Program", log: ottla.Log) -> None:
        log.append("t", [b"one", b"two", b"three"])
        assert program("consume", "t", "-g", "g", "-n", "2").done().lines == ["one", "two"]
        assert log.committed("g", "t") == {0: 3}
        assert program("consume", "t", "-g", "g").done().lines == ["three"]
        assert program("consume", "t", "-g", "g").done().lines == []
        assert program("consume", "t", "-g", "other", "--from", "3").done().lines == ["three"]

    def test_reading_without_a_group_stores_nothing(self, program: "Program", log: ottla.Log) -> None:
        log.append("t", [b"one"])
        program("consume", "t").done()
        assert log.groups() == []


class TestTail:
    def test_the_last_ones(self, program: "Program", log: ottla.Log) -> None:
        log.append("t", [b"%d" % number for number in range(100)])
        assert program("tail", "t", "--no-follow").done().lines == [str(number) for number in range(90, 100)]
        assert program("tail", "t", "--no-follow", "-n", "2").done().lines == ["98", "99"]
        assert program("tail", "t", "--no-follow", "-n", "0").done().lines == []
        assert len(program("tail", "t", "--no-follow", "-n", "1000").done().lines) == 100

    def test_the_newest_of_all_partitions_by_time(self, program: "Program", log: ottla.Log) -> None:
        log.create_topic("t", partitions=2)
        for number in range(10):
            log.append("t", [b"%d" % number], partition=number % 2, timestamps=[1000 + number])
        assert program("tail", "t", "--no-follow", "-n", "3").done().lines == ["7", "8", "9"]
        assert program("tail", "t", "--no-follow", "-n", "2", "-p", "0").done().lines == ["6", "8"]

    def test_in_json_too(self, program: "Program", log: ottla.Log) -> None:
        log.append("t", [b"one", b"two"])
        (line,) = program("tail", "t", "--no-follow", "-n", "1", "--json").done().lines
        assert json.loads(line)["number"] == 2

    def test_an_empty_or_trimmed_topic(self, program: "Program", log: ottla.Log) -> None:
        log.create_topic("t")
        assert program("tail", "t", "--no-follow").done().out == b""
        log.append("t", [b"%d" % number for number in range(5)])
        log.trim("t", before=5)
        assert program("tail", "t", "--no-follow").done().lines == ["4"]
