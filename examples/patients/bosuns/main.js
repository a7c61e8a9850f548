// bosuns tells the bosun of a ship what has to be bought before she sails. It makes a table of the
// stores by their codes with reduce, and copies the table with ... for each thing that is put in,
// so what it does grows with the square of their number; perf is allowed, and Node writes its perf
// map.
//
// Cured, each thing is put into the same table.
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

const SHIPS = 200;
const KINDS = ['rope', 'paint', 'shackle', 'tarpaulin', 'brush', 'block', 'lamp', 'fender'];

/** stores is what a ship has aboard. */
function stores(ship) {
  return Array.from({ length: 160 }, (_, n) => ({
    code: `${KINDS[n % KINDS.length]}-${n}`, count: (ship * 31 + n * 17) % 40, shelf: n % 12,
  }));
}
const ships = Array.from({ length: SHIPS }, (_, ship) => stores(ship));

// needed is what each day at sea takes.
const needed = Array.from({ length: 190 }, (_, n) => ({
  code: `${KINDS[n % KINDS.length]}-${n}`, day: 0.2 + (n % 7) / 5, cents: 250 + ((n * 53) % 900),
}));

/** tableByCode has what is aboard by its code. */
function tableByCode(aboard) {
  if (flags.cured) {
    return aboard.reduce((table, thing) => {
      table[thing.code] = thing;
      return table;
    }, {});
  }
  return aboard.reduce((table, thing) => ({ ...table, [thing.code]: thing }), {});
}

/** list is what has to be bought for a voyage, what costs most first. */
function list(ship, days) {
  const table = tableByCode(ships[ship]);
  const lines = [];
  for (const { code, day, cents } of needed) {
    const count = Math.ceil(day * days) - (table[code]?.count ?? 0);
    const shelf = table[code]?.shelf ?? null;
    if (count > 0) lines.push({ code, count, shelf, cents: count * cents });
  }
  return lines.sort((a, b) => b.cents - a.cents || a.code.localeCompare(b.code));
}

/** seal is what the chandler knows the list by. It is slow to make, so that nobody guesses one. */
function seal(text) {
  let sum = crypto.createHash('sha256').update(text).digest();
  for (let i = 0; i < 150; i++) sum = crypto.createHash('sha256').update(sum).digest();
  return sum.toString('base64url');
}

function serve(request, response) {
  const ship = crypto.randomInt(SHIPS);
  const days = crypto.randomInt(5, 40);
  const lines = list(ship, days);
  const body = JSON.stringify({ ship, days, lines, seal: seal(`${ship} ${days}`) });
  response.writeHead(200, {
    'content-type': 'application/json', 'content-length': Buffer.byteLength(body),
  });
  response.end(body);
}

if (cluster.isPrimary) {
  let missing = os.availableParallelism();
  for (let i = missing; i > 0; i--) cluster.fork();
  cluster.on('listening', (_, at) => {
    if (--missing === 0) console.log(`ready ${at.address}:${at.port}`);
  });
} else {
  const server = http.createServer(serve);
  server.keepAliveTimeout = 120_000;
  server.listen(Number(port), host);
  process.on('disconnect', () => process.exit(0)); // the primary is gone
}
process.on('SIGTERM', () => process.exit(0));
