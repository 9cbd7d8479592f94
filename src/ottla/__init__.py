"""ottla: a Kafka-style message log for Python and Spark that needs no cluster."""

__version__ = "0.1.0.dev0"
