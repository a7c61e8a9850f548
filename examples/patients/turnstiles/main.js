// turnstiles tells how many different people came through a gate of the harbour in the last four weeks. Redis has a
// HyperLogLog for each gate and day, and is asked for the count of all twenty-eight together, so that it merges them for each
// request, on its one thread.
//
// Cured, they were merged into one, which is asked.
'use strict';
const cluster = require('node:cluster');
const crypto = require('node:crypto');
const http = require('node:http');
const net = require('node:net');
const os = require('node:os');
const { parseArgs } = require('node:util');

const { values: flags } = parseArgs({
  options: {
    address: { type: 'string', default: '127.0.0.1:18800' },
    cured: { type: 'boolean', default: false },
  },
});
const [host, port] = flags.address.split(':');
const address = process.env.PATIENT_REDIS;
if (!address) {
  console.error('PATIENT_REDIS is not set: give it as 127.0.0.1:6379, or let bench/patients.py start one');
  process.exit(1);
}
const [redisHost, redisPort] = address.split(':');
const GATES = ['north', 'south', 'ferry', 'fish'];
const DAYS = 28;
const PEOPLE = 2200; // that come through a gate on a day

/**
 * Redis sends commands over one connection, and reads the answers: numbers, words and errors. When the connection is gone,
 * it is gone.
 */
class Redis {
  #waiting = [];
  #rest = '';
  #gone = null; // why there is no connection any more

  constructor() {
    this.socket = net.connect({ host: redisHost, port: redisPort, noDelay: true });
    this.socket.setEncoding('latin1');
    this.socket.on('data', (text) => this.#read(text));
    this.socket.on('error', (error) => this.#fail(error));
    this.socket.on('close', () => this.#fail(new Error('Redis is gone')));
  }

  #read(text) {
    const lines = (this.#rest + text).split('\r\n');
    this.#rest = lines.pop();
    for (const line of lines) {
      if (this.#waiting.length === 0) throw new Error(`Redis says what nobody has asked for: ${line}`);
      const { resolve, reject } = this.#waiting.shift();
      if (line[0] === '-') reject(new Error(line.slice(1)));
      else resolve(line[0] === ':' ? Number(line.slice(1)) : line.slice(1));
    }
  }

  #fail(error) {
    this.#gone ??= error;
    for (const { reject } of this.#waiting.splice(0)) reject(error);
  }

  ask(...words) {
    if (this.#gone) return Promise.reject(this.#gone);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      this.socket.write(`*${words.length}\r\n${words.map((w) => `$${w.length}\r\n${w}\r\n`).join('')}`);
    });
  }
}

const day = (gate, n) => `gate:${gate}:${n}`;
const days = (gate) => Array.from({ length: DAYS }, (_, n) => day(gate, n));
const season = (gate) => `gate:${gate}:season`;

/** fill counts the people of all days. */
async function fill() {
  const redis = new Redis();
  for (const gate of GATES) {
    const all = days(gate).map((key, n) =>
      redis.ask('PFADD', key, ...Array.from({ length: PEOPLE }, (_, i) => `P${(n * 977 + i * 13) % 90001}`)),
    );
    await Promise.all(all);
    await redis.ask('PFMERGE', season(gate), ...days(gate));
  }
  redis.socket.end();
}

/** tickets are the prices of a gate, as the number of people says. */
function tickets(gate, people) {
  const prices = [];
  for (let zone = 1; zone <= 50; zone++) {
    const seal = crypto.createHash('sha256').update(`${gate} ${zone}`).digest();
    prices.push({ zone, cents: 120 + 15 * zone + (seal[0] % 30) + (people % 7), valid: 60 + 10 * (seal[1] % 12) });
  }
  return prices.sort((a, b) => a.cents - b.cents || a.zone - b.zone);
}

if (cluster.isPrimary) {
  fill().then(() => {
    let missing = os.availableParallelism();
    for (let i = missing; i > 0; i--) cluster.fork();
    cluster.on('listening', (_, at) => {
      if (--missing === 0) console.log(`ready ${at.address}:${at.port}`);
    });
    cluster.on('exit', (_, code) => {
      if (code !== 0) process.exit(1); // it would not be the same service with fewer of them
    });
  });
} else {
  const redis = new Redis();
  const server = http.createServer(async (request, response) => {
    try {
      const gate = GATES[crypto.randomInt(GATES.length)];
      const people = await redis.ask('PFCOUNT', ...(flags.cured ? [season(gate)] : days(gate)));
      const body = JSON.stringify({ gate, people, tickets: tickets(gate, people) });
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) });
      response.end(body);
    } catch (error) {
      response.writeHead(503, { 'content-type': 'text/plain' });
      response.end(`${error.message}\n`);
    }
  });
  server.keepAliveTimeout = 120_000;
  server.listen(Number(port), host);
  process.on('disconnect', () => process.exit(0)); // the primary is gone
}
process.on('SIGTERM', () => process.exit(0));
