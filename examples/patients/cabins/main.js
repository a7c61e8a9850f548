// cabins lists the cabins of a ship that are free, in the order of their names, in which cabin 9 is
// before cabin 10. They are compared with localeCompare, which is given the language and an option
// for that, and makes a collator of ICU from them once more for each comparison of the sort. Node's
// own perf map is on, and perf is allowed.
//
// Cured, one collator is made when the service starts, and it compares all names.
'use strict';
const cluster = require('node:cluster');
const crypto = require('node:crypto');
const http = require('node:http');
const os = require('node:os');
const { parseArgs } = require('node:util');

const { values: flags } = parseArgs({
  options: {
    address: { type: 'string', default: '127.0.0.1:18800' },
    cured: { type: 'boolean', default: false },
  },
});
const [host, port] = flags.address.split(':');

const FREE = 60; // cabins of a ship that are shown
const NIGHTS = 3; // of a long weekend
const DECKS = ['Promenade', 'Bridge', 'Lido', 'Main', 'Upper'];
const SHIPS = Array.from({ length: 80 }, (_, ship) =>
  Array.from({ length: 240 }, (_, n) => ({
    name: `${DECKS[(n * 7 + ship) % DECKS.length]} ${1 + ((n * 53 + ship) % 240)}`,
    beds: 1 + (n % 4),
    crowns: 700 + ((n * 131 + ship * 17) % 1900),
  })),
);

const collator = new Intl.Collator('en', { numeric: true });

/** byLocale is the order of two cabins, by name. */
function byLocale(a, b) {
  if (flags.cured) return collator.compare(a.name, b.name);
  return a.name.localeCompare(b.name, 'en', { numeric: true });
}

/** nights are what a cabin costs in each night, with a seal for who takes it at that price. */
function nights(cabin, first) {
  return Array.from({ length: NIGHTS }, (_, n) => {
    const seal = crypto.createHash('sha256').update(`${cabin.name} ${first + n}`).digest();
    const crowns = Math.round((cabin.crowns * (80 + (seal[0] % 40))) / 100);
    return { night: first + n, crowns, seal: seal.toString('base64url', 0, 6) };
  });
}

/** offer is a cabin with its best night. */
function offer(cabin, first) {
  const best = nights(cabin, first).sort((a, b) => a.crowns - b.crowns || a.night - b.night)[0];
  return { ...cabin, best };
}

function serve(request, response) {
  const ship = crypto.randomInt(SHIPS.length);
  const first = crypto.randomInt(SHIPS[ship].length - FREE);
  const free = SHIPS[ship].slice(first, first + FREE).sort(byLocale);
  const body = JSON.stringify({ ship, cabins: free.map((cabin) => offer(cabin, first)) });
  response.writeHead(200, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
  });
  response.end(body);
}

if (cluster.isPrimary) {
  let missing = os.availableParallelism();
  for (let i = missing; i > 0; i--) cluster.fork();
  cluster.on('listening', (_, at) => {
    if (--missing === 0) console.log(`ready ${at.address}:${at.port}`);
  });
  cluster.on('exit', (_, code) => process.exit(code)); // it is not the same service with fewer
} else {
  const server = http.createServer(serve);
  server.keepAliveTimeout = 120_000;
  server.listen(Number(port), host);
  process.on('disconnect', () => process.exit(0)); // the primary is gone
}
process.on('SIGTERM', () => process.exit(0));
