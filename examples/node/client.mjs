// An ottla client in Node. It is made from the .proto alone: no generated code, nothing of ottla's own.
//
//     npm install
//     node client.mjs [host:port] [topic]

import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

import grpc from "@grpc/grpc-js";
import protoLoader from "@grpc/proto-loader";

const PROTO = fileURLToPath(new URL("../../proto/ottla/v1/log.proto", import.meta.url));
const DEADLINE_MS = 10_000;
const ATTEMPTS = 5;

// Numbers are uint64 on the wire; as JavaScript numbers they are exact up to 2^53. Absent fields stay absent.
const definition = protoLoader.loadSync(PROTO, { keepCase: true, longs: Number });
const { Log } = grpc.loadPackageDefinition(definition).ottla.v1;
const decodeError = definition["ottla.v1.Error"].deserialize;

/** An error of the server: a name and facts for programs, a sentence for people. */
class OttlaError extends Error {
  constructor(status, { name, facts, message }) {
    super(message);
    this.name = name;
    this.status = grpc.status[status];
    this.facts = JSON.parse(facts);
  }
}

/** Every call of the service as a promise, with a deadline. */
class Client {
  constructor(address) {
    this.stub = new Log(address, grpc.credentials.createInsecure());
  }

  call(method, request, waitMs = 0) {
    const deadline = Date.now() + DEADLINE_MS + waitMs;
    return new Promise((resolve, reject) => {
      this.stub[method](request, { deadline }, (error, answer) => (error ? reject(explained(error)) : resolve(answer)));
    });
  }

  createTopic(name, settings) {
    return this.call("CreateTopic", { name, settings });
  }

  /** Messages from a number on (0 is the oldest kept), waiting up to waitMs for the first. */
  async poll(topic, partition, from, waitMs = 0) {
    const request = { topic, partition, from, wait_ms: waitMs };
    const { messages = [], next } = await this.call("Poll", request, waitMs);
    return { messages, next };
  }

  close() {
    this.stub.close();
  }
}

/** Posts to one partition. A call whose answer was lost is repeated with its sequence, and so stored once. */
class Producer {
  constructor(client, topic, partition) {
    Object.assign(this, { client, topic, partition, id: randomBytes(16), sequence: 0 });
  }

  async send(records) {
    const landed = await this.attempt(records, this.sequence);
    this.sequence += 1;
    return landed;
  }

  async attempt(records, sequence) {
    const request = { topic: this.topic, partition: this.partition, records, producer_id: this.id, sequence };
    for (let attempt = 1; ; attempt += 1) {
      try {
        return (await this.client.call("Produce", request)).landed;
      } catch (error) {
        if (attempt === ATTEMPTS || !["UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"].includes(error.status)) {
          throw error;
        }
        await sleep(100 * 2 ** attempt);
      }
    }
  }
}

/** The server's own words and facts, where it sent any; else what gRPC says. */
function explained(error) {
  const [details] = error.metadata?.get("ottla-error-bin") ?? [];
  if (details) return new OttlaError(error.code, decodeError(details));
  return Object.assign(error, { status: grpc.status[error.code] });
}

function shown({ partition = 0, number, key, value, headers = [] }) {
  const text = (bytes) => (bytes === undefined || bytes === null ? "none" : JSON.stringify(bytes.toString()));
  const pairs = headers.map((header) => `${header.name}=${text(header.value)}`);
  return `${partition}/${number} key ${text(key)} value ${text(value)} headers [${pairs.join(", ")}]`;
}

async function demo(address, topic) {
  const client = new Client(address);
  try {
    await client.createTopic(topic, { partitions: 1, retention_ms: 7 * 86_400_000 });
    console.log(`created ${topic}`);
  } catch (error) {
    if (error.name !== "TopicExists") throw error;
    console.log(`${topic} is there already`);
  }

  const producer = new Producer(client, topic, 0);
  const records = [
    { key: Buffer.from("melbourne"), value: Buffer.from("truck 1021 on time") },
    { key: Buffer.from("perth"), value: Buffer.from("truck 7 late"), headers: [{ name: "by", value: Buffer.from("40m") }] },
    { value: Buffer.alloc(0) },
    { key: Buffer.from("a tombstone"), headers: [{ name: "none" }] },
  ];
  const numbers = (landed) => landed.map((one) => one.number).join(" ");
  console.log(`landed at ${numbers(await producer.send(records))}`);
  console.log(`sent again, still at ${numbers(await producer.attempt(records, 0))}`);

  let { messages, next } = await client.poll(topic, 0, 0);
  messages.forEach((message) => console.log(shown(message)));

  console.log(`following from ${next}`);
  const waiting = client.poll(topic, 0, next, 30_000);
  await producer.send([{ value: Buffer.from("while it was waiting") }]);
  ({ messages, next } = await waiting);
  messages.forEach((message) => console.log(shown(message)));

  try {
    await client.poll("no-such-topic", 0, 0);
  } catch (error) {
    console.log(`${error.status} ${error.name} ${JSON.stringify(error.facts)}: ${error.message}`);
  }
  client.close();
}

const [address = "127.0.0.1:9999", topic = "deliveries"] = process.argv.slice(2);
try {
  await demo(address, topic);
} catch (error) {
  console.error(`${error.name}: ${error.message}`);
  process.exitCode = 1;
}
