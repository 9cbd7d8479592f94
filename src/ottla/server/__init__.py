"""The server: a log on the network, over gRPC. Needs `pip install 'ottla[server]'`."""

from ottla.server.server import Server

__all__ = ["Server"]
