// havens finds the havens that are nearest to a boat. It asks Redis for the first eight within
// 20,000 km, so that there is always an answer, as that is half around the earth. But with such a
// radius Redis measures the way to all havens that it knows, and sorts them, for each request, and
// it has one thread for that.
//
// Cured, it asks for those within 40 km, and asks again for twice as many if there are too few.
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
const HAVENS = 9000;
const NEAREST = 8;
const HOURS = 24; // of tides that are shown of each haven
const FIRST = flags.cured ? 40 : 20_000; // kilometres that are looked through at first

/** fill brings havens into Redis: they lie all over a sea. */
async function fill() {
  const redis = new Redis(address);
  for (let n = 0; n < HAVENS; n++) {
    const east = 0.5 + ((n * 7919) % 12_007) / 1000;
    const north = 52 + ((n * 104_729) % 8009) / 1000;
    redis.ask('GEOADD', 'havens', `${east}`, `${north}`, `Haven ${n}`);
  }
  await redis.ask('PING'); // is answered after all the others
  redis.socket.removeAllListeners('close').end();
}

/** nearest are the names of the havens next to a place, with the kilometres to each. */
async function nearest(redis, east, north) {
  for (let km = FIRST; ; km *= 2) {
    const within = ['FROMLONLAT', east, north, 'BYRADIUS', `${km}`, 'km'];
    const order = ['ASC', 'COUNT', `${NEAREST}`, 'WITHDIST'];
    const found = await redis.ask('GEOSEARCH', 'havens', ...within, ...order);
    if (found.length === NEAREST || km > 20_000) return found;
  }
}

/** tides says how high the water is at each hour in a haven, and when a boat can enter. */
function tides([haven, km]) {
  const hours = Array.from({ length: HOURS }, (_, hour) => {
    const phase = crypto.createHash('sha256').update(`${haven} ${hour}`).digest()[0] / 256;
    return { hour, metres: Math.round(30 + 20 * Math.sin(hour / 2 + phase)) / 10 };
  });
  const enter = hours.filter(({ metres }) => metres >= 3.2).map(({ hour }) => hour);
  return { haven, km: Number(km), enter };
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
    const east = `${(2000 + crypto.randomInt(9000)) / 1000}`;
    const north = `${(53_000 + crypto.randomInt(6000)) / 1000}`;
    const havens = (await nearest(redis, east, north)).map(tides);
    const body = JSON.stringify({ east, north, havens });
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
