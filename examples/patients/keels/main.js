// keels lists the boats that stand in a yard for the winter. Each boat has a key of its own in
// Redis, and those of a yard are looked for with SCAN and MATCH, as KEYS is known to be bad. But
// SCAN goes through all keys as well, those of all other yards too, only in several steps, and
// Redis has one thread for that.
//
// Cured, Redis has a set for each yard too, with the names of its keys, and it is asked.
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
const YARDS = 320;
const BOATS = 20; // in each yard
const STEP = '2000'; // keys that SCAN looks at before it answers
const WEEKS = 8; // until spring

/** fill brings boats into all yards. */
async function fill() {
  const redis = new Redis(address);
  for (let yard = 0; yard < YARDS; yard++) {
    const keys = Array.from({ length: BOATS }, (_, n) => `keel:${yard}:${1000 + yard + n * 401}`);
    redis.ask('MSET', ...keys.flatMap((key, n) => [key, `${6 + ((yard + n * 7) % 14)}`]));
    redis.ask('SADD', `yard:${yard}`, ...keys);
  }
  await redis.ask('PING'); // is answered after all the others
  redis.socket.removeAllListeners('close').end();
}

/** scanned are the keys of a yard, by going through all that there are. */
async function scanned(redis, yard) {
  const found = new Set(); // as SCAN may give a key twice
  let cursor = '0';
  do {
    const match = `keel:${yard}:*`;
    const [next, keys] = await redis.ask('SCAN', cursor, 'MATCH', match, 'COUNT', STEP);
    for (const key of keys) found.add(key);
    cursor = next;
  } while (cursor !== '0');
  return [...found];
}

/** boats are those of a yard, with the metres of each. */
async function boats(redis, yard) {
  const set = `yard:${yard}`;
  const keys = flags.cured ? await redis.ask('SMEMBERS', set) : await scanned(redis, yard);
  keys.sort();
  const metres = await redis.ask('MGET', ...keys);
  return keys.map((key, i) => ({ boat: key.split(':')[2], metres: Number(metres[i]) }));
}

/** plan says what is done to a boat in which week, with a seal for the one who does it. */
function plan({ boat, metres }) {
  const weeks = Array.from({ length: WEEKS }, (_, week) => {
    const seal = crypto.createHash('sha256').update(`${boat} ${week}`).digest();
    return { week, hours: 1 + ((seal[0] * metres) % 9), seal: seal.toString('base64url', 0, 6) };
  });
  weeks.sort((a, b) => a.hours - b.hours || a.week - b.week);
  return { boat, metres, weeks: weeks.slice(0, 3) };
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
    const yard = crypto.randomInt(YARDS);
    const body = JSON.stringify({ yard, boats: (await boats(redis, yard)).map(plan) });
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
