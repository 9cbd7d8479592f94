"""Which broker owns a partition: the one rule that servers, clients and the files of `jsonl:` share (row W3)."""


def owner_of(partition: int, brokers: int) -> int:
    """The id of the broker that owns a partition, from 1."""
    return partition % brokers + 1
