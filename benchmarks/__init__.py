"""Benchmarks: `make bench`, or `python -m benchmarks [names] [--quick]`. Nothing here is asserted by tests."""
