"""The jsonl engine keeps every promise that the contract makes, whether a topic has one file or several."""

from pathlib import Path

from ottla.testing import EngineContract


class TestJsonlEngine(EngineContract):
    def url(self, folder: Path) -> str:
        return f"jsonl://{folder}"


class TestJsonlEngineWithTwoBrokers(EngineContract):
    def url(self, folder: Path) -> str:
        return f"jsonl://{folder}?brokers=2"
