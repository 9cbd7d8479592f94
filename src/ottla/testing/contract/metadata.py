"""Small versioned metadata with compare-and-swap."""

import threading

import pytest

from ottla.errors import InvalidValue, MetadataConflict
from ottla.storage import Engine
from ottla.testing.contract.base import Contract, Storage
from ottla.testing.jobs import count_up_with


class MetadataContract(Contract):
    """Load, store, keys, discard."""

    def test_what_was_never_stored_is_none(self, engine: Engine) -> None:
        """An unknown key is no error."""
        assert engine.load("groups/billing") is None
        assert engine.keys("groups") == []
        engine.discard("groups/billing")

    def test_store_and_load(self, engine: Engine) -> None:
        """What was stored is loaded, with the version to give back."""
        version = engine.store("groups/billing", b"\0data\xff", 0)
        assert version > 0
        assert engine.load("groups/billing") == (b"\0data\xff", version)

    def test_replacing_needs_the_current_version(self, engine: Engine) -> None:
        """Versions rise; a replacement with any other than the current one is refused and changes nothing."""
        first = engine.store("a/b", b"1", 0)
        second = engine.store("a/b", b"2", first)
        assert second > first
        for wrong in (0, first, second + 1):
            with pytest.raises(MetadataConflict) as refused:
                engine.store("a/b", b"wrong", wrong)
            assert (refused.value.expected, refused.value.actual) == (wrong, second)
        assert engine.load("a/b") == (b"2", second)

    def test_storing_what_must_exist(self, engine: Engine) -> None:
        """A version of something that is not there is a conflict."""
        with pytest.raises(MetadataConflict):
            engine.store("a/b", b"1", 3)
        assert engine.load("a/b") is None

    @pytest.mark.parametrize("data", [b"", b"\0", b"x" * 1_000_000])
    def test_data_is_opaque(self, engine: Engine, data: bytes) -> None:
        """Any bytes, none too."""
        engine.store("key", data, 0)
        loaded = engine.load("key")
        assert loaded is not None
        assert loaded.data == data

    def test_keys_below_a_prefix(self, engine: Engine) -> None:
        """Sorted, whole keys, of that prefix and no other that merely begins the same."""
        for key in ("groups/b", "groups/a/1", "groups/a/0", "groups/x.tmp", "groups2/c", "groups-d", "other"):
            engine.store(key, b"x", 0)
        assert engine.keys("groups") == ["groups/a/0", "groups/a/1", "groups/b", "groups/x.tmp"]
        assert engine.keys("groups/a") == ["groups/a/0", "groups/a/1"]
        assert engine.keys("nothing") == []

    def test_a_key_may_begin_another(self, engine: Engine) -> None:
        """`a` and `a/b` are two keys, in whichever order they come."""
        for key in ("a", "a/b", "c/d", "c"):
            engine.store(key, key.encode(), 0)
        for key in ("a", "a/b", "c/d", "c"):
            loaded = engine.load(key)
            assert loaded is not None
            assert loaded.data == key.encode()
        assert engine.keys("a") == ["a/b"]

    def test_names_in_keys_may_be_long(self, engine: Engine) -> None:
        """A group may be called whatever a topic may be called."""
        key = f"groups/{'g' * 249}/{'h' * 249}"
        engine.store(key, b"x", 0)
        assert engine.keys("groups") == [key]
        assert engine.load(key) is not None

    def test_discard(self, engine: Engine) -> None:
        """What is discarded is gone, can be stored anew, and is no error the second time."""
        engine.store("a/b", b"1", 0)
        engine.store("a/c", b"1", 0)
        engine.discard("a/b")
        engine.discard("a/b")
        assert engine.load("a/b") is None
        assert engine.keys("a") == ["a/c"]
        assert engine.store("a/b", b"2", 0) > 0

    @pytest.mark.parametrize(
        "key", ["", "/", "a/", "/a", "a//b", "..", "../a", "a/../b", "a/.", "a b", "a\0", "ü", "a\\b"]
    )
    def test_bad_keys_are_refused(self, engine: Engine, key: str) -> None:
        """Keys are checked names joined by `/`; anything else is refused with a sentence and nothing is written."""
        for use in (
            lambda: engine.load(key),
            lambda: engine.store(key, b"x", 0),
            lambda: engine.discard(key),
            lambda: engine.keys(key),
        ):
            with pytest.raises(InvalidValue):
                use()

    def test_metadata_is_not_topics(self, engine: Engine) -> None:
        """A key is no topic, whatever it is called."""
        engine.store("topics/deliveries", b"x", 0)
        assert engine.topics() == []

    def test_concurrent_changes_lose_no_update(self, engine: Engine) -> None:
        """Four threads count to a hundred together by compare-and-swap, each repeating on a conflict."""
        _count_together([engine] * 4, 25)
        loaded = engine.load("counter")
        assert loaded is not None
        assert loaded.data == b"100"

    def test_concurrent_changes_by_several_engines(self, shared_storage: Storage) -> None:
        """So do four engines on the same storage."""
        _count_together([shared_storage.open() for _ in range(4)], 25)
        loaded = shared_storage.open().load("counter")
        assert loaded is not None
        assert loaded.data == b"100"

    def test_metadata_survives_reopening(self, lasting_storage: Storage) -> None:
        """Data and version are there again, and what was discarded is not."""
        engine = lasting_storage.open()
        version = engine.store("a/b", b"2", engine.store("a/b", b"1", 0))
        engine.store("a/c", b"x", 0)
        engine.discard("a/c")
        engine = lasting_storage.reopen()
        assert engine.load("a/b") == (b"2", version)
        assert engine.keys("a") == ["a/b"]


def _count_together(engines: list[Engine], times: int) -> None:
    threads = [threading.Thread(target=count_up_with, args=(engine, times)) for engine in engines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
