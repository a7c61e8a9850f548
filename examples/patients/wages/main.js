// wages writes what each sailor of a crew is paid. It writes each amount and each day with toLocaleString, which makes
// a formatter for each call; perf is allowed, and Node writes its perf map.
//
// Cured, the formatters are made once.
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

const RANKS = ['master', 'mate', 'bosun', 'cook', 'deckhand'];
const MONEY = { style: 'currency', currency: 'EUR' };
const DAY = { weekday: 'short', day: 'numeric', month: 'long', timeZone: 'UTC' };
const crews = Array.from({ length: 300 }, (_, c) => Array.from({ length: 12 }, (_, n) => ({
  name: `Sailor ${c}-${n}`, rank: RANKS[(c + n) % RANKS.length], cents: 180_000 + ((c * 37 + n * 101) % 300) * 1000,
  paid: Date.UTC(2026, (c + n) % 12, 1 + (n * 7) % 28),
})));

const money = new Intl.NumberFormat('en-IE', MONEY);
const day = new Intl.DateTimeFormat('en-IE', DAY);

/** amount is a sum of money, for people. */
function amount(cents) {
  return flags.cured ? money.format(cents / 100) : (cents / 100).toLocaleString('en-IE', MONEY);
}

/** date is a day, for people. */
function date(at) {
  return flags.cured ? day.format(at) : new Date(at).toLocaleDateString('en-IE', DAY);
}

/** slip is what one sailor is paid. */
function slip(sailor, seal) {
  const tax = Math.round(sailor.cents * (0.1 + (seal[sailor.cents % 32] % 20) / 100));
  return `<tr><td>${sailor.name}<td>${sailor.rank}<td>${amount(sailor.cents)}<td>${amount(tax)}<td>${date(sailor.paid)}\n`;
}

/** page is a crew, in the order of its pay. */
function page(number) {
  let seal = crypto.createHash('sha256').update(`crew ${number}`).digest();
  for (let i = 0; i < 150; i++) seal = crypto.createHash('sha256').update(seal).digest();
  const rows = [...crews[number]].sort((a, b) => b.cents - a.cents || a.name.localeCompare(b.name));
  return `<!doctype html><title>Crew ${number}</title><table>\n${rows.map((s) => slip(s, seal)).join('')}</table>\n`;
}

function serve(request, response) {
  const body = page(crypto.randomInt(crews.length));
  response.writeHead(200, { 'content-type': 'text/html; charset=utf-8', 'content-length': Buffer.byteLength(body) });
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
