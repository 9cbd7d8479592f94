"""The `jsonl:` engine: messages as lines of JSON, for reading with `cat`, `grep` and `jq`.

<root>/<topic>-<broker>.txt      the messages of a topic's partitions that broker has (`ottla.storage.jsonl.lines`)
<root>/topics/<topic>/<topic id>/
topic.json                       the topic
brokers.json                     into how many files it goes, fixed when it is created
<broker>/control                 what of the file is acknowledged (`ottla.storage.disk.control`)
<broker>/state                   what the lines no longer prove (`ottla.storage.jsonl.state`)
<root>/damaged/<topic>/<topic id>/   lines that `repair` set aside

It promises what `file:` promises, at the speed and size of text. The price of one readable file: what is trimmed
or expired is gone for readers at once, but takes space until half of the file is, when it is written anew. There are
no segments: a topic's settings for them mean nothing here, and batches expire one by one.
"""

from ottla.storage.jsonl.engine import JsonlEngine, open_jsonl

__all__ = ["JsonlEngine", "open_jsonl"]
