// davits shows the faults that inspectors found on a ship's davits, each once. It compares two
// faults by turning both into JSON, once more for each pair, as many an answer on the Web says;
// perf is allowed, and Node writes its perf map.
//
// Cured, it compares their fields.
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

const SHIPS = 300;
const PARTS = ['winch', 'fall', 'hook', 'brake', 'limit switch', 'sheave', 'gripe', 'painter'];
const WHAT = ['corroded', 'worn', 'seized', 'loose', 'missing'];

/** reports is what three inspectors found on a ship: they see some faults twice. */
function reports(ship) {
  return Array.from({ length: 46 }, (_, n) => {
    const seen = (ship * 7 + n * 3) % 37;
    return {
      davit: 1 + (seen % 6), part: PARTS[seen % PARTS.length], what: WHAT[seen % WHAT.length],
      grade: seen % 4, side: seen % 2 ? 'port' : 'starboard',
    };
  });
}
const ships = Array.from({ length: SHIPS }, (_, ship) => reports(ship));

/** same says whether two reports are of one fault. */
function same(a, b) {
  if (flags.cured) {
    return a.davit === b.davit && a.part === b.part && a.what === b.what && a.grade === b.grade
      && a.side === b.side;
  }
  return JSON.stringify(a) === JSON.stringify(b);
}

/** faults has each fault once, the worst first. Of what is left, no two are the same. */
function faults(found) {
  const once = found.filter((a, i) => found.findIndex((b) => same(a, b)) === i);
  return once.sort((a, b) => b.grade - a.grade || a.davit - b.davit || (a.part < b.part ? -1 : 1));
}

/** seal is what the authorities know the page by. It is slow, so that nobody guesses one. */
function seal(text) {
  let sum = crypto.createHash('sha256').update(text).digest();
  for (let i = 0; i < 170; i++) sum = crypto.createHash('sha256').update(sum).digest();
  return sum.toString('base64url');
}

/** row is a fault as a line of the page. */
function row({ davit, part, what, grade, side }) {
  return `<tr><td>${davit}, ${side}<td>${part}<td>${what}<td>${'!'.repeat(grade)}\n`;
}

function page(ship) {
  const rows = faults(ships[ship]).map(row).join('');
  return `<!doctype html><title>Ship ${ship}</title><table>\n${rows}</table>\n<p>${seal(rows)}\n`;
}

function serve(request, response) {
  const body = page(crypto.randomInt(SHIPS));
  response.writeHead(200, {
    'content-type': 'text/html; charset=utf-8', 'content-length': Buffer.byteLength(body),
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
