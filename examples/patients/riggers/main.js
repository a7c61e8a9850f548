// riggers finds who can be hired in a port: those who have a trade, are free this week, and live in
// the port. Redis has a set for each trade, for each week and for each port, and SINTER has it look
// through thousands of names, of which a few are in all three, on its one thread, for each request.
//
// Cured, a rigger was put into a set for his port, trade and week together too, and it is asked.
'use strict';
const cluster = require('node:cluster');
const crypto = require('node:crypto');
const http = require('node:http');
const os = require('node:os');
const { parseArgs } = require('node:util');
const { Redis } = require('../resp/redis.js');

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
const RIGGERS = 98_000;
const PORTS = 14;
const TRADES = 14;
const WEEKS = 14;
const MASTS = 4; // that have to be rigged

const sets = (wish) => [`port:${wish.port}`, `trade:${wish.trade}`, `free:${wish.week}`];
const together = (wish) => `hire:${wish.port}:${wish.trade}:${wish.week}`;

/** fill has riggers of all trades in all ports, of whom each is free for a week. */
async function fill() {
  const names = new Map(); // of the riggers in each set
  for (let i = 0; i < RIGGERS; i++) {
    const seal = crypto.createHash('sha256').update(`rigger ${i}`).digest();
    const name = `${seal.toString('hex', 6, 9)}-${i}`;
    const rigger = {
      port: seal.readUInt16LE(0) % PORTS,
      trade: seal.readUInt16LE(2) % TRADES,
      week: seal.readUInt16LE(4) % WEEKS,
    };
    for (const key of [...sets(rigger), together(rigger)]) {
      if (!names.has(key)) names.set(key, []);
      names.get(key).push(name);
    }
  }
  const redis = new Redis(address);
  for (const [key, all] of names) redis.ask('SADD', key, ...all);
  await redis.ask('PING'); // is answered after all the others
  redis.socket.removeAllListeners('close').end();
}

/** riggers are those who can be hired. */
async function riggers(redis, wish) {
  const names = flags.cured
    ? await redis.ask('SMEMBERS', together(wish))
    : await redis.ask('SINTER', ...sets(wish));
  return names.sort();
}

/** offer says what a rigger would take for each mast, the cheapest first. */
function offer(name) {
  const masts = Array.from({ length: MASTS }, (_, mast) => {
    const seal = crypto.createHash('sha256').update(`${name} ${mast}`).digest();
    return { mast, crowns: 40 + (seal[0] % 60), hours: 2 + (seal[1] % 9) };
  });
  masts.sort((a, b) => a.crowns - b.crowns || a.mast - b.mast);
  return { name, masts: masts.slice(0, 3) };
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
  const redis = new Redis(address);
  const server = http.createServer(async (request, response) => {
    const wish = {
      port: crypto.randomInt(PORTS),
      trade: crypto.randomInt(TRADES),
      week: crypto.randomInt(WEEKS),
    };
    try {
      const offers = (await riggers(redis, wish)).map(offer);
      const body = JSON.stringify({ ...wish, offers });
      response.writeHead(200, {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
      });
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
