// tenders says which crane lifts a cargo, and for how much. The office that makes the tenders takes
// orders from a list in Redis and puts each answer into a list of its own, for which a web process
// waits with BLPOP. It waits on the one connection that all of its requests share: whatever comes
// after a BLPOP stands behind it until the answer is there, even the next order.
//
// Cured, BLPOP has connections of its own, and a request takes one that is free.
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
const { PATIENT_REDIS: redisAt, PATIENT_SERVICE: yard } = process.env;
if (!redisAt || !yard) {
  console.error('PATIENT_REDIS and PATIENT_SERVICE are not set: give each as HOST:PORT');
  process.exit(1);
}
const ORDERS = 'orders';
const PATIENCE = 10; // seconds that a request waits for an answer
const agent = new http.Agent({ keepAlive: true });

/** Redis is a connection. An answer is a number, a text, or a list of texts, or null. */
class Redis {
  #waiting = [];
  #rest = '';

  constructor() {
    const [at, number] = redisAt.split(':');
    this.socket = net.connect({ host: at, port: Number(number), noDelay: true });
    this.socket.setEncoding('latin1');
    this.socket.on('data', (text) => this.#read(text));
    this.socket.on('error', () => process.exit(1)); // without Redis there is nothing to do
    this.socket.on('close', () => process.exit(1));
  }

  /** read has the lines of whole answers: no text has a line break in it. */
  #read(text) {
    const lines = (this.#rest + text).split('\r\n');
    this.#rest = lines.pop();
    while (lines.length > 0) {
      const size = lines[0][0] === '*' ? 1 + 2 * Math.max(0, Number(lines[0].slice(1))) : 1;
      if (lines.length < size) break;
      const [head, ...texts] = lines.splice(0, size);
      this.#waiting.shift()(size > 1 ? texts.filter((_, i) => i % 2) : head.slice(1));
    }
    if (lines.length > 0) this.#rest = [...lines, this.#rest].join('\r\n');
  }

  ask(...words) {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      const sizes = words.map((w) => `$${Buffer.byteLength(String(w))}\r\n${w}\r\n`);
      this.socket.write(`*${words.length}\r\n${sizes.join('')}`);
    });
  }
}

/** office takes orders, asks the yard for each, and answers. */
async function office() {
  const [orders, answers] = [new Redis(), new Redis()];
  for (;;) {
    const found = await orders.ask('BLPOP', ORDERS, PATIENCE);
    if (!Array.isArray(found)) continue;
    const [id, tons] = found[1].split(' ');
    http.get(`http://${yard}/cranes`, { agent }, (answer) => {
      let free = '';
      answer.setEncoding('utf8').on('data', (part) => { free += part; });
      answer.on('end', () => answers.ask('RPUSH', id, tons * 40 + Number.parseInt(free, 10)));
    }).on('error', () => answers.ask('RPUSH', id, 'none'));
  }
}

/** Web asks the office. */
class Web {
  #shared = new Redis();
  #free = [];

  async tender(tons) {
    const id = crypto.randomUUID();
    const waits = flags.cured ? this.#free.pop() ?? new Redis() : this.#shared;
    this.#shared.ask('RPUSH', ORDERS, `${id} ${tons}`);
    const found = await waits.ask('BLPOP', id, PATIENCE);
    if (waits !== this.#shared) this.#free.push(waits);
    if (!Array.isArray(found) || found[1] === 'none') throw new Error('there is no tender');
    return Number(found[1]);
  }
}

/** days says what a lift costs on each of the next days, the cheapest first. */
function days(tons, cents) {
  const offers = [];
  for (let day = 1; day <= 150; day++) {
    const seal = crypto.createHash('sha256').update(`${tons} ${day}`).digest();
    offers.push({ day, cents: cents + 25 * (seal[0] % 60), wind: seal[1] % 12 });
  }
  return offers.sort((a, b) => a.cents - b.cents || a.day - b.day);
}

if (cluster.isPrimary) {
  office();
  let missing = os.availableParallelism();
  for (let i = missing; i > 0; i--) cluster.fork();
  cluster.on('listening', (_, at) => {
    if (--missing === 0) console.log(`ready ${at.address}:${at.port}`);
  });
  cluster.on('exit', (_, code) => process.exit(code)); // it is not the same service with fewer
} else {
  const web = new Web();
  const server = http.createServer(async (request, response) => {
    try {
      const tons = crypto.randomInt(1, 400);
      const body = JSON.stringify({ tons, days: days(tons, await web.tender(tons)) });
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
