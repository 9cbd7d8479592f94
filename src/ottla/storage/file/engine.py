"""The engine object of a `file:` log."""

from collections.abc import Iterable
from pathlib import Path

from ottla.model import Damage, Topic
from ottla.storage.contract import EngineOptions
from ottla.storage.disk.engine import DiskEngine, only_network_option
from ottla.storage.disk.root import folder_of
from ottla.storage.file import check, mend
from ottla.storage.file.partition import FilePartition
from ottla.storage.file.runs import Runs


def open_file(url: str, options: EngineOptions) -> "FileEngine":
    """The log in a folder, which is created unless it is opened read-only."""
    return FileEngine(folder_of(url), options, allow_network=only_network_option(url, options))


class FileEngine(DiskEngine[FilePartition]):
    """Topics in a folder: segments of batches, and Parquet runs."""

    name = "file"

    def __init__(self, folder: Path, options: EngineOptions, *, allow_network: bool = False) -> None:
        super().__init__(folder, options, allow_network=allow_network)
        self.runs = Runs(self.files, self.segments)

    def open_partition(self, topic: Topic, index: int) -> FilePartition:
        return FilePartition(self, topic, index)

    def committed(self, topic: Topic) -> Iterable[FilePartition]:  # noqa: ARG002  (nothing of it)
        """None of them: a commit under way has its files open, and ends as one that came before."""
        return ()

    def verify(self) -> Iterable[Damage]:
        self.check_open()
        return check.verify(self)

    def repair(self) -> Iterable[Damage]:
        self.check_writable("repair")
        return mend.repair(self)
