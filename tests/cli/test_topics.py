"""`ottla topics` and `ottla groups`: made, looked at, changed and removed."""

from typing import TYPE_CHECKING

import ottla

if TYPE_CHECKING:
    from tests.cli.conftest import Program


class TestTopics:
    def test_made_in_peoples_words(self, program: "Program", log: ottla.Log) -> None:
        program(
            "topics", "create", "t", "--partitions", "4", "--retention", "7d", "--partitioner", "key-hash",
            "--sync", "interval", "--set", "max_message_bytes=1MiB", "--set", "segment_ms=60000",
            "--set", "retention_bytes=1GB", "--set", "sync_interval=5s",
        ).done()  # fmt: skip
        settings = log.topic("t").settings
        assert (settings.partitions, settings.retention_ms, settings.partitioner) == (4, 7 * 86_400_000, "key-hash")
        assert (settings.sync, settings.sync_interval_ms, settings.segment_ms) == ("interval", 5000, 60_000)
        assert (settings.max_message_bytes, settings.retention_bytes) == (2**20, 10**9)

    def test_making_it_again_only_if_it_is_missing(self, program: "Program", log: ottla.Log) -> None:
        program("topics", "create", "t", "--partitions", "2").done()
        assert program("topics", "create", "t").code == 1
        program("topics", "create", "t", "--if-missing", "--partitions", "9").done()
        assert log.topic("t").settings.partitions == 2

    def test_the_list(self, program: "Program", log: ottla.Log) -> None:
        assert program("topics", "list", url=log.url).done().table == []
        log.create_topic("b", partitions=2, retention="2h")
        log.append("a", [b"x"] * 10)
        a, b = program("topics", "list").done().table
        assert (a["TOPIC"], a["PARTITIONS"], a["MESSAGES"], a["RETENTION"]) == ("a", "1", "10", "forever")
        assert (b["TOPIC"], b["PARTITIONS"], b["MESSAGES"], b["RETENTION"]) == ("b", "2", "0", "2h")
        assert [row["topic"] for row in program("topics", "list", "--json").done().json] == ["a", "b"]

    def test_the_description(self, program: "Program", log: ottla.Log) -> None:
        log.create_topic("t", partitions=2, retention="10s")
        log.append("t", [b"x"] * 3, partition=1)
        log.trim("t", 1, before=2)
        described = program("topics", "describe", "t", "--json").done().json
        assert described["id"] == log.topic("t").id
        assert described["settings"]["retention_ms"] == 10_000
        zero, one = described["partitions"]
        assert (zero["first"], zero["next"]) == (1, 1)
        assert (one["first"], one["next"], one["messages"]) == (2, 4, 2)
        shown = program("topics", "describe", "t").done().lines
        assert "retention\t10s" in shown
        assert any(line.startswith("1\t2\t4\t2\t") for line in shown)

    def test_changed_while_in_use(self, program: "Program", log: ottla.Log) -> None:
        log.create_topic("t", retention="7d")
        program("topics", "alter", "t", "--retention", "forever", "--partitions", "3").done()
        assert (log.topic("t").settings.retention_ms, log.topic("t").settings.partitions) == (None, 3)
        program("topics", "alter", "t", "--set", "retention_bytes=unlimited", "--set", "segment_ms=forever").done()
        program("topics", "add-partitions", "t", "5").done()
        assert log.topic("t").settings.partitions == 5

    def test_deleted_with_a_yes(self, program: "Program", log: ottla.Log) -> None:
        log.append("t", [b"x"])
        program("topics", "delete", "t", "--yes").done()
        assert log.topics() == []

    def test_trimmed_by_number_and_altogether(self, program: "Program", log: ottla.Log) -> None:
        log.append("t", [b"x"] * 10)
        (row,) = program("topics", "trim", "t", "--before", "4", "--yes", "--json").done().json
        assert (row["first"], row["next"], row["messages"]) == (4, 11, 7)
        (row,) = program("topics", "trim", "t", "--before", "latest", "--yes").done().table
        assert (row["FIRST"], row["NEXT"]) == ("11", "11")
        assert log.append("t", [b"y"])[0].numbers == range(11, 12)


class TestGroups:
    def test_lag_in_the_list_and_in_each_partition(self, program: "Program", log: ottla.Log) -> None:
        log.create_topic("t", partitions=2)
        for partition in range(2):
            log.append("t", [b"x"] * 10, partition=partition)
        log.commit("g", "t", {0: 4})
        (row,) = program("groups", "list").done().table
        assert (row["GROUP"], row["TOPIC"], row["LAG"]) == ("g", "t", "17")
        zero, one = program("groups", "describe", "g", "--json").done().json
        assert (zero["position"], zero["next"], zero["lag"]) == (4, 11, 7)
        assert (one["position"], one["next"], one["lag"]) == (None, 11, 10)

    def test_messages_that_are_gone_are_no_lag(self, program: "Program", log: ottla.Log) -> None:
        log.append("t", [b"x"] * 10)
        log.commit("g", "t", {0: 2})
        log.trim("t", before=9)
        (row,) = program("groups", "describe", "g", "--json").done().json
        assert row["lag"] == 2

    def test_reset_forward_back_and_in_one_partition(self, program: "Program", log: ottla.Log) -> None:
        log.create_topic("t", partitions=2)
        for partition in range(2):
            log.append("t", [b"x"] * 10, partition=partition)
        program("groups", "reset", "g", "t", "--to", "latest").done()
        assert log.committed("g", "t") == {0: 11, 1: 11}
        program("groups", "reset", "g", "t", "--to", "3", "--partition", "1").done()
        assert log.committed("g", "t") == {0: 11, 1: 3}
        program("groups", "reset", "g", "t", "--to", "earliest").done()
        assert log.committed("g", "t") == {0: 1, 1: 1}

    def test_deleted_in_one_topic_or_in_all(self, program: "Program", log: ottla.Log) -> None:
        for topic in ("t", "u", "v"):
            log.append(topic, [b"x"])
            log.commit("g", topic, {0: 2})
        program("groups", "delete", "g", "t", "--yes").done()
        assert [group.topic for group in log.groups()] == ["u", "v"]
        assert program("groups", "delete", "g").code == 2
        program("groups", "delete", "g", "--yes").done()
        assert log.groups() == []
