// binnacles makes the deviation card of a ship: how far off its compass is on each heading, which
// is worked out from the bearings of its last reports. Each report is checked against a schema
// first. The validator turns a schema into a function, which is meant to be done once, and check
// does it again for each report; perf is allowed, and Node writes its perf map.
//
// Cured, the schema is compiled when the service starts.
'use strict';
const cluster = require('node:cluster');
const crypto = require('node:crypto');
const http = require('node:http');
const os = require('node:os');
const { parseArgs } = require('node:util');
const { REPORT, report } = require('./reports.js');
const { compile } = require('./schema.js');

const { values: flags } = parseArgs({
  options: {
    address: { type: 'string', default: '127.0.0.1:18800' },
    cured: { type: 'boolean', default: false },
  },
});
const [host, port] = flags.address.split(':');

const SHIPS = 200;
const WATCHES = 20; // a ship reports once in each of the last
const ROUNDS = 12; // of the fit, each of which trusts outliers less
const RADIAN = Math.PI / 180;
const HEADINGS = Array.from({ length: 72 }, (_, n) => n * 5); // that a card has

const checkCompiled = compile(REPORT);

function check(report) {
  const wrong = flags.cured ? checkCompiled(report) : compile(REPORT)(report);
  if (wrong) throw new Error(`the report is wrong: ${wrong}`);
}

// What the ships have sent.
const sent = Array.from({ length: SHIPS }, (_, ship) =>
  Array.from({ length: WATCHES }, (_, watch) => report(ship + 1, watch)),
);

/** terms are what a deviation is made of on a heading; each has a coefficient, A to E. */
function terms(heading) {
  const h = heading * RADIAN;
  return [1, Math.sin(h), Math.cos(h), Math.sin(2 * h), Math.cos(2 * h)];
}

/** solve returns the coefficients for which the sums hold, by elimination. */
function solve(sums) {
  for (let i = 0; i < sums.length; i++) {
    for (let row = 0; row < sums.length; row++) {
      if (row === i) continue;
      const times = sums[row][i] / sums[i][i];
      for (let k = i; k <= sums.length; k++) sums[row][k] -= times * sums[i][k];
    }
  }
  return sums.map((row, i) => row.at(-1) / row[i]);
}

function deviation(coefficients, heading) {
  return terms(heading).reduce((sum, term, i) => sum + term * coefficients[i], 0);
}

/** fit finds the coefficients that go best with all bearings but the outliers. */
function fit(bearings) {
  let found = [0, 0, 0, 0, 0];
  for (let round = 0; round < ROUNDS; round++) {
    const sums = found.map(() => new Array(found.length + 1).fill(0));
    for (const { heading, seen, true: real } of bearings) {
      const weight = 1 / (1 + Math.abs(real - seen - deviation(found, heading)));
      const parts = [...terms(heading), real - seen];
      sums.forEach((row, i) => parts.forEach((p, k) => (row[k] += weight * parts[i] * p)));
    }
    found = solve(sums);
  }
  return found;
}

/** card is the page that hangs next to the compass. */
function card(ship) {
  const reports = sent[ship - 1];
  reports.forEach(check);
  const coefficients = fit(reports.flatMap((one) => one.bearings));
  const lines = HEADINGS.map((heading) => {
    const off = deviation(coefficients, heading);
    return `${String(heading).padStart(3, '0')} ${off < 0 ? 'W' : 'E'} ${Math.abs(off).toFixed(2)}`;
  });
  const { name, compass: made } = reports[0];
  return `${name}, ${made.maker} ${made.serial}\n${lines.join('\n')}\n`;
}

if (cluster.isPrimary) {
  let missing = os.availableParallelism();
  for (let i = missing; i > 0; i--) cluster.fork();
  cluster.on('listening', (_, at) => {
    if (--missing === 0) console.log(`ready ${at.address}:${at.port}`);
  });
  cluster.on('exit', (_, code) => process.exit(code)); // it is not the same service with fewer
} else {
  const server = http.createServer((request, response) => {
    response.end(card(1 + crypto.randomInt(SHIPS)));
  });
  server.keepAliveTimeout = 120_000;
  server.listen(Number(port), host);
  process.on('disconnect', () => process.exit(0)); // the primary is gone
}
process.on('SIGTERM', () => process.exit(0));
