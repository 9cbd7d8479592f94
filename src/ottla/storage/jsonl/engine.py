"""The engine object of a `jsonl:` log."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from ottla.errors import CorruptBatch, CorruptLog, InvalidValue
from ottla.model import Damage, Topic
from ottla.settings import check_name
from ottla.storage.contract import EngineOptions
from ottla.storage.disk.engine import DiskEngine, only_network_option
from ottla.storage.disk.root import folder_of
from ottla.storage.jsonl import check, mend
from ottla.storage.jsonl.ledger import MOST_BROKERS, Ledger
from ottla.storage.jsonl.lines import sealed, unsealed
from ottla.storage.jsonl.partition import JsonlPartition

_BROKERS = "brokers.json"
_LONGEST_NAME = 255


def open_jsonl(url: str, options: EngineOptions) -> "JsonlEngine":
    """The log in a folder, which is created unless it is opened read-only.

    `?brokers=N` spreads the partitions of topics that are created over so many text files each.
    """
    allow_network = only_network_option(url, options, "brokers")
    text = options.settings.get("brokers", "1")
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MOST_BROKERS:
        raise InvalidValue("URL option", f"brokers={text}", f"it must be a number from 1 to {MOST_BROKERS}")
    return JsonlEngine(folder_of(url), options, allow_network=allow_network, brokers=int(text))


class JsonlEngine(DiskEngine[JsonlPartition]):
    """Topics in a folder, as text. Partition *p* of a topic is in the file of broker *p* % brokers + 1."""

    name = "jsonl"

    def __init__(self, folder: Path, options: EngineOptions, *, allow_network: bool = False, brokers: int = 1) -> None:
        self._new_brokers = brokers
        self._ledgers: dict[tuple[str, int], Ledger] = {}
        super().__init__(folder, options, allow_network=allow_network)

    def text_path(self, topic: str, broker: int) -> Path:
        return self.root.path / f"{topic}-{broker}.txt"

    def create_topic(self, topic: Topic) -> Topic:
        self.check_writable("create a topic")
        check_name(topic.name)
        longest = self.text_path(topic.name, self._new_brokers).name
        if len(longest) > _LONGEST_NAME:
            rule = f"with {self._new_brokers} brokers its file would be called {longest}: use a shorter name"
            raise InvalidValue("topic name", topic.name, rule)
        return self.catalog.create(topic, partial(self._prepare, topic))

    def _prepare(self, topic: Topic, folder: Path) -> None:
        """How many files a topic has never changes; files that a deletion left behind are not among them."""
        for broker in range(1, self._new_brokers + 1):
            self.files.unlink(self.text_path(topic.name, broker))
        self.write_brokers(folder, self._new_brokers)

    def write_brokers(self, folder: Path, brokers: int) -> None:
        """Fix the number of a topic's files; the caller holds the root's lock."""
        self.files.replace(folder / _BROKERS, sealed(f'{{"brokers":{brokers}') + b"\n")

    def brokers(self, topic: Topic) -> int:
        """How many text files the topic has."""
        path = self.catalog.folder(topic) / _BROKERS
        try:
            return int(unsealed((self.files.read(path) or b"").removesuffix(b"\n"))["brokers"])
        except CorruptBatch as error:
            reason = f"it does not say how many brokers there are: {error.reason}"
            raise CorruptLog(str(path), 0, reason) from error

    def ledger(self, topic: Topic, broker: int) -> Ledger:
        key = (topic.id, broker)
        return self._ledgers.get(key) or self._ledgers.setdefault(key, Ledger(self, topic, broker))

    def open_partition(self, topic: Topic, index: int) -> JsonlPartition:
        return JsonlPartition(self, self.ledger(topic, index % self.brokers(topic) + 1), index)

    def committed(self, topic: Topic) -> Iterable[Ledger]:
        return (self.ledger(topic, broker) for broker in range(1, self.brokers(topic) + 1))

    def removed(self, topic: Topic) -> None:
        """The folder is gone already. Cut short here, the text is nobody's, and a new topic's file replaces it."""
        for ledger in [ledger for ledger in list(self._ledgers.values()) if ledger.topic.id == topic.id]:
            self.files.unlink(ledger.path)
            self.files.unlink(ledger.new_path)
            ledger.drop_open()
            self._ledgers.pop((topic.id, ledger.broker), None)
        self.files.sync_folder(self.root.path)

    def verify(self) -> Iterable[Damage]:
        self.check_open()
        return check.verify(self)

    def repair(self) -> Iterable[Damage]:
        self.check_writable("repair")
        return mend.repair(self)
