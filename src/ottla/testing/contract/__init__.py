"""The engine contract as tests. Inherit it, name your storage, and find out whether the promises hold:

    class TestMyEngine(EngineContract):
        def url(self, folder):
            return f"mine://{folder}"

The promises are those of `ottla.storage.contract`; each test's docstring is one of them. Names of rows (M1 to
M6, K9) are those of the systems that ottla grew from.
"""

import pytest

for _module in ("appending", "concurrency", "lifecycle", "metadata", "processes", "producers", "reading", "retention"):
    pytest.register_assert_rewrite(f"{__name__}.{_module}")
pytest.register_assert_rewrite(f"{__name__}.topics", f"{__name__}.seeds")

from ottla.testing.contract.appending import AppendingContract  # noqa: E402  (after the rewriting is asked for)
from ottla.testing.contract.concurrency import ConcurrencyContract  # noqa: E402
from ottla.testing.contract.lifecycle import LifecycleContract  # noqa: E402
from ottla.testing.contract.metadata import MetadataContract  # noqa: E402
from ottla.testing.contract.processes import ProcessesContract  # noqa: E402
from ottla.testing.contract.producers import ProducersContract  # noqa: E402
from ottla.testing.contract.reading import ReadingContract  # noqa: E402
from ottla.testing.contract.retention import RetentionContract  # noqa: E402
from ottla.testing.contract.seeds import SeedsContract  # noqa: E402
from ottla.testing.contract.topics import TopicsContract  # noqa: E402

__all__ = ["EngineContract"]


class EngineContract(
    SeedsContract,
    AppendingContract,
    ReadingContract,
    ProducersContract,
    RetentionContract,
    TopicsContract,
    MetadataContract,
    ConcurrencyContract,
    ProcessesContract,
    LifecycleContract,
):
    """All of the promises. Override `url`, and the attributes where your engine promises less."""
