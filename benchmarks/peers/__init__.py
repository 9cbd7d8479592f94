"""ottla beside its peers, in one run: `make bench-peers`, or `python -m benchmarks.peers [names] [--quick] [--docs]`.

Each peer is started by the run itself, on loopback, on free ports, with its data in a temporary folder, and stopped
and removed whatever happens. The same messages go to all (100 B and 1 KiB, random bytes, one topic with one
partition), both ends are Python clients, and an acknowledged message is on the disk wherever the peer can do that; the
table says where it cannot. A peer that is missing is shown as "not run", with the reason and the way to get it.

What is measured:

- *produce, one by one*: messages a second, handed to the client one at a time, which batches them as it does; Redis
  and RabbitMQ get pipelines of 1,000 here, as their clients do not batch, or only twice a second.
- *produce, lists*: the same through the call that takes many, where the client has one.
- *produce, packed*: 1,000 messages packed by hand into one record, as an application can do with any of them. Much of
  ottla's lead is batching, and this is what is left without it.
- *consume*: messages a second from the beginning of what was produced, as `bytes`. The peers' clients hand out an
  object for each message; ottla hands out lists of values, and *consume, objects* is ottla with an object for each.
- *consume, packed*: the records of *produce, packed*, unpacked into `bytes`.
- *send*: one message, until it is acknowledged; p50 and p99, with nothing else going on.
- *end to end*: from before the send until a consumer that waits in another process has the message; p50 and p99.

Throughput is the best of a few rounds of about a second after a warm-up. *Limit* rows are the same without a log: bare
`fdatasync`, and a bare grpcio stream.

What a run needs: `pip install --group peers` (`make bench-peers` does it) and of the servers those that are wanted:

- Redis: `apt install redis-server`
- NATS 2.10 or newer: `go install github.com/nats-io/nats-server/v2@latest`
- RabbitMQ: `apt install rabbitmq-server`
- Kafka 4: `apt install default-jre-headless maven`; the run itself has Maven fetch the newest 4.x (130 MB, once)

On Debian, installing a server may also start it; `systemctl disable --now …` ends that, as the run starts its own.
`--folder` puts the data somewhere else than in the system's temporary folder, which must not be in memory.
"""
