// fenders writes a list of the fenders that fit a boat, in the order in which they lie on the
// shelves of a shop, for who fetches them. Whatever is compared in the sort is looked for with
// findIndex on the shelves, from the first shelf on: twice for each comparison.
//
// Cured, a map that is made once knows the place of each kind.
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
const KINDS = 900; // of fenders

const catalogue = Array.from({ length: KINDS }, (_, n) => ({
  kind: 10_000 + n * 13,
  cents: 1900 + ((n * 31) % 9000),
  longest: 6 + (n % 18), // the metres of a boat that it is strong enough for
}));
// The shop puts them where there is room: 367 has no divisor in common with 900.
const shelves = catalogue.map((_, n) => ({
  kind: 10_000 + ((n * 367) % KINDS) * 13,
  aisle: n % 30,
}));
const places = new Map(shelves.map((shelf, n) => [shelf.kind, n]));

/** byShelf is the order of the shelves. */
function byShelf(a, b) {
  if (flags.cured) return places.get(a.kind) - places.get(b.kind);
  const first = shelves.findIndex((shelf) => shelf.kind === a.kind);
  return first - shelves.findIndex((shelf) => shelf.kind === b.kind);
}

/** label is a fender as it stands in the list, with a seal that the till can check. */
function label({ kind, cents }, n) {
  const seal = crypto.createHash('sha256').update(`${kind} ${cents} ${n}`).digest();
  return { n, kind, cents, seal: seal.toString('base64url', 0, 9) };
}

function serve(request, response) {
  const metres = 8 + crypto.randomInt(12);
  const fit = catalogue.filter(({ longest }) => longest >= metres && longest < metres + 3);
  const body = JSON.stringify({ metres, fenders: fit.sort(byShelf).map(label) });
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
