// kafkajs: see digest.py for the commands. gzip is its own codec; those of snappy and lz4 are packages, and zstd-codec
// becomes one by the few lines below.
const crypto = require("crypto");
const { CompressionCodecs, CompressionTypes, Kafka, logLevel } = require("kafkajs");
const LZ4 = require("kafkajs-lz4");
const Snappy = require("kafkajs-snappy");
const { ZstdCodec } = require("zstd-codec");

const zstd = new Promise((done) => ZstdCodec.run((found) => done(new found.Streaming())));

CompressionCodecs[CompressionTypes.Snappy] = Snappy;
CompressionCodecs[CompressionTypes.LZ4] = new LZ4().codec;
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async ({ buffer }) => Buffer.from((await zstd).compress(new Uint8Array(buffer))),
  decompress: async (buffer) => Buffer.from((await zstd).decompress(new Uint8Array(buffer))),
});

const [command, bootstrap, topic, counted, names] = process.argv.slice(2);
const count = Number(counted);
const kafka = new Kafka({ brokers: bootstrap.split(","), logLevel: logLevel.ERROR });
const codecs = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
};

const record = (n) => ({ key: `k${n % 1000}`, value: `${n}-${"x".repeat((n * 37) % 200)}`, partition: 0 });

async function produce(options) {
  const shares = names.split(",");
  for (const [at, codec] of shares.entries()) {
    const producer = kafka.producer(options);
    await producer.connect();
    const end = Math.floor((count * (at + 1)) / shares.length);
    for (let n = Math.floor((count * at) / shares.length); n < end; n += 2000) {
      const messages = [];
      for (let each = n; each < Math.min(n + 2000, end); each++) messages.push(record(each));
      await producer.send({ topic, messages, compression: codecs[codec] });
    }
    await producer.disconnect();
  }
  return { errors: 0, first: [] };
}

async function consume() {
  const consumer = kafka.consumer({ groupId: `digest-${process.pid}` });
  const sum = crypto.createHash("sha256");
  let seen = 0;
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await new Promise((done) =>
    consumer.run({
      eachBatch: async ({ batch }) => {
        for (const each of batch.messages) {
          if (seen < count) {
            sum.update(`${each.offset}\t${each.timestamp}\t${each.key}\t${each.value}\n`);
            seen++;
          }
        }
        if (seen >= count) done();
      },
    }),
  );
  await consumer.disconnect();
  return { count: seen, sha256: sum.digest("hex") };
}

async function look() {
  const time = Number(names);
  const admin = kafka.admin();
  await admin.connect();
  const [found] = await admin.fetchTopicOffsetsByTimestamp(topic, time);
  await admin.disconnect();
  const consumer = kafka.consumer({ groupId: `look-${process.pid}` });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  const sought = await new Promise((done) => {
    consumer.run({ eachMessage: async ({ message }) => Number(message.offset) >= count && done(Number(message.offset)) });
    consumer.seek({ topic, partition: 0, offset: counted });
  });
  await consumer.disconnect();
  return { sought, found: Number(found.offset) };
}

async function member() {
  const consumer = kafka.consumer({ groupId: counted, sessionTimeout: 2000, heartbeatInterval: 300 });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({
    autoCommitInterval: 200,
    eachMessage: async ({ message }) => console.log(message.value.toString().split("-")[0]),
  });
  await new Promise(() => {});
}

const commands = { produce: () => produce({}), idempotent: () => produce({ idempotent: true, maxInFlightRequests: 1 }), consume, look, member };
commands[command]().then(
  (answer) => {
    console.log(JSON.stringify(answer));
    process.exit(0);
  },
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
