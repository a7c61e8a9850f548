// gantries tells which gantries may lift a crate. What each may do stands in Redis, as one JSON
// text, so that an engineer can change it without a restart. Each request gets the text and parses
// all of it, though it changes a few times a week. Node's own perf map is on, and perf is allowed.
//
// Cured, the text is parsed only when it is not the same as the last one.
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
const KEY = 'gantries';
const GANTRIES = 700;
const DAYS = 60; // for which a lift is offered
const SHOWN = 10;

/** Redis sends commands over one connection, and reads the answers. */
class Redis {
  #waiting = [];
  #read = Buffer.alloc(0);
  #parts = []; // of an answer that is not complete
  #missing = 0;

  constructor() {
    this.socket = net.connect({ host: redisHost, port: redisPort, noDelay: true });
    this.socket.on('data', (part) => this.#take(part));
    this.socket.on('error', () => process.exit(1)); // without Redis there is nothing to do
    this.socket.on('close', () => process.exit(1));
  }

  #take(part) {
    this.#parts.push(part);
    this.#missing -= part.length;
    if (this.#missing > 0) return;
    this.#read = Buffer.concat([this.#read, ...this.#parts.splice(0)]);
    for (;;) {
      const line = this.#read.indexOf('\r\n');
      if (line < 0) break;
      const head = this.#read.toString('latin1', 0, line);
      const size = head[0] === '$' ? Number(head.slice(1)) + 2 : 0; // a text has a line end as well
      this.#missing = line + 2 + size - this.#read.length;
      if (this.#missing > 0) return;
      const text = size > 0 ? this.#read.toString('utf8', line + 2, line + size) : head;
      this.#read = this.#read.subarray(line + 2 + size);
      this.#waiting.shift()(text);
    }
    this.#missing = 0;
  }

  ask(...words) {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      const sizes = words.map((w) => `$${Buffer.byteLength(w)}\r\n${w}\r\n`);
      this.socket.write(`*${words.length}\r\n${sizes.join('')}`);
    });
  }
}

/** fill writes down what each gantry may do. */
async function fill() {
  const redis = new Redis();
  const all = Array.from({ length: GANTRIES }, (_, n) => ({
    id: `G${n}`,
    quay: `Quay ${n % 17}`,
    tons: 5 + ((n * 37) % 60),
    reach: { out: 20 + ((n * 13) % 45), up: 12 + ((n * 7) % 38) },
    wind: 9 + ((n * 11) % 15),
    cents: 4000 + ((n * 101) % 3000),
    hours: [5 + (n % 4), 18 + (n % 6)],
    notes: n % 5 ? [] : ['one crate at a time', `the brake of trolley ${n} is slow`],
  }));
  await redis.ask('SET', KEY, JSON.stringify(all));
  redis.socket.removeAllListeners('close').end();
}

let last = { text: '', gantries: [] };

/** parsed are the gantries of a text. Nobody changes them. */
function parsed(text) {
  if (!flags.cured || text !== last.text) last = { text, gantries: JSON.parse(text) };
  return last.gantries;
}

/** able are the gantries that may lift a crate, the cheapest first. */
function able(gantries, crate) {
  return gantries
    .filter((g) => g.tons >= crate.tons && g.reach.out >= crate.out && g.wind >= crate.wind)
    .sort((a, b) => a.cents - b.cents || a.reach.up - b.reach.up)
    .slice(0, SHOWN)
    .map(({ id, quay, cents, hours }) => ({ id, quay, cents, hours }));
}

/** offers says what the lift costs on each day, with a seal that nobody can change. */
function offers(gantry, crate) {
  return Array.from({ length: DAYS }, (_, day) => {
    const seal = crypto.createHash('sha256').update(`${gantry.id} ${crate.tons} ${day}`).digest();
    const cents = gantry.cents + 50 * (seal[0] % 40);
    return { day, cents, seal: seal.toString('base64url', 0, 9) };
  }).sort((a, b) => a.cents - b.cents || a.day - b.day).slice(0, SHOWN);
}

if (cluster.isPrimary) {
  fill().then(() => {
    let missing = os.availableParallelism();
    for (let i = missing; i > 0; i--) cluster.fork();
    cluster.on('listening', (_, at) => {
      if (--missing === 0) console.log(`ready ${at.address}:${at.port}`);
    });
    cluster.on('exit', (_, code) => process.exit(code)); // it is not the same service with fewer
  });
} else {
  const redis = new Redis();
  const server = http.createServer(async (request, response) => {
    const crate = {
      tons: 5 + crypto.randomInt(30), out: 20 + crypto.randomInt(20), wind: 9 + crypto.randomInt(8),
    };
    const found = able(parsed(await redis.ask('GET', KEY)), crate);
    const body = JSON.stringify({ crate, gantries: found, offers: offers(found[0], crate) });
    response.writeHead(200, {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
    });
    response.end(body);
  });
  server.keepAliveTimeout = 120_000;
  server.listen(Number(port), host);
  process.on('disconnect', () => process.exit(0)); // the primary is gone
}
process.on('SIGTERM', () => process.exit(0));
