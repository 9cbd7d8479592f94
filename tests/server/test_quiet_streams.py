"""Append streams that nobody uses make room while there are many, and their clients do not notice."""

import time

import pytest

import ottla
from ottla.server import Server, services
from ottla.storage import open_engine
from ottla.storage.remote import uploads
from ottla.testing.samples import batch_of, new_topic

LONG_S = 60.0


@pytest.mark.parametrize(("partitions", "kept"), [(8, False), (2, True)], ids=["many", "few"])
def test_quiet_streams_end_only_while_there_are_many(
    monkeypatch: pytest.MonkeyPatch, partitions: int, kept: bool
) -> None:
    monkeypatch.setattr(services, "_QUIET_S", 0.2)
    monkeypatch.setattr(uploads, "_IDLE_S", 0.1)
    with ottla.open("memory:") as log:
        server = Server(log, max_streams=8)
        engine = open_engine(f"grpc://{server.start('127.0.0.1:0')}")
        topic = new_topic(engine, partitions=partitions)
        stores = [engine.partition(topic, index) for index in range(partitions)]
        for store in stores:
            store.append([batch_of(b"a")])
        streams = server._services._batches.streams
        assert len(streams._open) == partitions
        deadline = time.monotonic() + (1.0 if kept else LONG_S)
        while streams._open and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(streams._open) == (partitions if kept else 0)
        assert [store.append([batch_of(b"b")])[0].first for store in stores] == [2] * partitions
        engine.close()
        server.stop(0)
