"""Which broker owns a partition (row W3)."""

import pytest

from ottla.protocol.brokers import owner_of


@pytest.mark.parametrize(
    ("brokers", "owners"), [(1, [1, 1, 1, 1]), (2, [1, 2, 1, 2]), (3, [1, 2, 3, 1]), (9, [1, 2, 3, 4])]
)
def test_partitions_are_dealt_out_in_turn(brokers: int, owners: list[int]) -> None:
    assert [owner_of(partition, brokers) for partition in range(4)] == owners
