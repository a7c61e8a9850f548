// skippers shows who leads the league of a class of boats: the points of the last seven days. Redis
// has a sorted set for each day, and ZUNIONSTORE adds the seven up for each request, on the one
// thread that Redis has.
//
// Cured, the points were added to a set for the week too when they were won, and it is asked.
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
const CLASSES = ['dinghies', 'cutters', 'yawls', 'sloops'];
const DAYS = 7;
const SKIPPERS = 360; // that win points on a day
const FIRST = 10; // are shown

/** Redis sends commands over one connection, and reads the answers: words, and lists of words. */
class Redis {
  #waiting = [];
  #lines = [];
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
    this.#lines.push(...lines);
    while (this.#lines.length > 0) {
      const [line] = this.#lines;
      // each word comes after a line with its length
      const more = { '*': 2 * Number(line.slice(1)), $: 1 }[line[0]] ?? 0;
      if (this.#lines.length <= more) return;
      const answer = this.#lines.splice(0, 1 + more);
      const { resolve, reject } = this.#waiting.shift();
      if (line[0] === '-') reject(new Error(line.slice(1)));
      else if (line[0] === '*') resolve(answer.filter((_, i) => i > 0 && i % 2 === 0));
      else resolve(answer.at(-1)); // a word, or a number as it was sent
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

const day = (boats, n) => `league:${boats}:day:${n}`;
const days = (boats) => Array.from({ length: DAYS }, (_, n) => day(boats, n));
const week = (boats) => `league:${boats}:week`;

/** fill gives points for seven days, to others on each. */
async function fill() {
  const redis = new Redis();
  for (const boats of CLASSES) {
    await redis.ask('DEL', week(boats), ...days(boats));
    for (let n = 0; n < DAYS; n++) {
      for (let i = 0; i < SKIPPERS; i++) {
        const skipper = `skipper-${(n * 97 + i * 5) % 3001}`;
        const points = String(1 + ((i * 31 + n * 7) % 400));
        redis.ask('ZADD', day(boats, n), points, skipper);
        redis.ask('ZINCRBY', week(boats), points, skipper);
      }
    }
    await redis.ask('PING'); // is answered after all the others
  }
  redis.socket.end();
}

/** leaders are the first of the week, with their points. */
async function leaders(redis, boats) {
  if (!flags.cured) {
    await redis.ask('ZUNIONSTORE', week(boats), String(DAYS), ...days(boats));
  }
  const first = await redis.ask('ZREVRANGE', week(boats), '0', String(FIRST - 1), 'WITHSCORES');
  return Array.from({ length: FIRST }, (_, i) => ({
    skipper: first[2 * i],
    points: Number(first[2 * i + 1]),
  }));
}

/** races says what the leaders may still win, the most first. */
function races(boats, first) {
  const all = [];
  for (let race = 1; race <= 160; race++) {
    const seal = crypto.createHash('sha256').update(`${boats} ${race}`).digest();
    const { skipper, points } = first[race % FIRST];
    all.push({ race, skipper, points: 20 + (seal[0] % 80) + (points % 10), wind: seal[1] % 9 });
  }
  return all.sort((a, b) => b.points - a.points || a.race - b.race);
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
      const boats = CLASSES[crypto.randomInt(CLASSES.length)];
      const first = await leaders(redis, boats);
      const body = JSON.stringify({ boats, leaders: first, races: races(boats, first) });
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
