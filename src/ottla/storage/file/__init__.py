"""The `file:` engine: a folder that any number of processes append to and read at once.

<root>/topics/<topic>/<topic id>/<partition>/
control                    what is acknowledged (`ottla.storage.disk.control`)
<first>.log                a segment: batches back to back; `first` has 20 digits
<first>.index              a sparse index of a sealed segment; can be made again at any time
<first>.producers          the producers' table at the start of that segment
<first>-<end>.parquet      a compacted run in place of segments; `end` is the number after its last
<first>-<end>.gap          messages that `repair` could not save, and why
compacting                 locked by the compaction that is at work
"""

from ottla.storage.file.engine import FileEngine, open_file

__all__ = ["FileEngine", "open_file"]
