"""What all tests share: Hypothesis profiles, and no silent skips in CI."""

import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("quick", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("campaign", deadline=None, max_examples=int(os.environ.get("OTTLA_ROUNDS", "1000")))
settings.load_profile("campaign" if "OTTLA_ROUNDS" in os.environ else "quick")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """In CI a skipped test is a failure: whatever it needs, CI must have."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or os.environ.get("CI") != "true":
        return
    skipped = reporter.stats.get("skipped", [])
    if skipped and exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        reporter.write_line(f"CI: {len(skipped)} skipped tests count as failures", red=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A campaign is run when somebody says how long it may be: `make campaign`."""
    if "OTTLA_ROUNDS" in os.environ:
        return
    campaign = [item for item in items if item.get_closest_marker("campaign")]
    items[:] = [item for item in items if item not in campaign]
    if campaign:
        config.hook.pytest_deselected(items=campaign)
