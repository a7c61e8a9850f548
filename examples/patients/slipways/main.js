// slipways tells the owner of a boat which place it has in the list of those that wait for a
// slipway. The list is one of Redis, and LPOS finds the place: Redis goes through the list from its
// head for each request, on its one thread.
//
// Cured, they wait in a sorted set, and ZRANK finds the place.
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
  console.error('PATIENT_REDIS is not set: give it as 127.0.0.1:6379');
  process.exit(1);
}
const [redisHost, redisPort] = address.split(':');
const SLIPWAYS = ['north', 'mill', 'quarry'];
const BOATS = 100_000; // that wait for a slipway
const AT_ONCE = 1000; // are written to Redis

/** Redis sends commands over one connection, and reads the answers: numbers, words and errors. */
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
      if (this.#waiting.length === 0) throw new Error(`nobody has asked Redis for ${line}`);
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
      const sizes = words.map((w) => `$${w.length}\r\n${w}\r\n`);
      this.socket.write(`*${words.length}\r\n${sizes.join('')}`);
    });
  }
}

const list = (slipway) => `slipway:${slipway}:list`;
const order = (slipway) => `slipway:${slipway}:order`;
const boat = (n) => `boat-${((n * 7919) % BOATS).toString().padStart(6, '0')}`;

/** fill has all boats wait, in the list and in the set. */
async function fill() {
  const redis = new Redis();
  for (const slipway of SLIPWAYS) {
    await redis.ask('DEL', list(slipway), order(slipway));
    for (let first = 0; first < BOATS; first += AT_ONCE) {
      const places = Array.from({ length: AT_ONCE }, (_, i) => first + i);
      await redis.ask('RPUSH', list(slipway), ...places.map(boat));
      await redis.ask('ZADD', order(slipway), ...places.flatMap((p) => [String(p), boat(p)]));
    }
  }
  redis.socket.end();
}

/** place is how many are before a boat. */
function place(redis, slipway, name) {
  if (flags.cured) return redis.ask('ZRANK', order(slipway), name);
  return redis.ask('LPOS', list(slipway), name);
}

/** days says what is offered to those who wait, the cheapest day first. */
function days(slipway, before) {
  const offers = [];
  for (let day = 1; day <= 200; day++) {
    const seal = crypto.createHash('sha256').update(`${slipway} ${day}`).digest();
    const cents = 9000 + 90 * (seal[0] % 60) + (before % 50);
    offers.push({ day, cents, tide: (seal[1] % 40) / 10 });
  }
  return offers.sort((a, b) => a.cents - b.cents || a.day - b.day);
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
      const slipway = SLIPWAYS[crypto.randomInt(SLIPWAYS.length)];
      const name = boat(crypto.randomInt(BOATS));
      const before = await place(redis, slipway, name);
      const body = JSON.stringify({ slipway, boat: name, before, days: days(slipway, before) });
      response.writeHead(200, { 'content-type': 'application/json' });
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
