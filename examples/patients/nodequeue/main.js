// nodequeue reserves places on excursions. The operator that it asks takes 4 ms. As two reservations of one
// excursion must not overtake each other, each begins when the promise of the one before it has been
// settled, whatever excursion that was for: a process asks for one at a time.
//
// Cured, each excursion has a chain of its own.
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
const [operatorHost, operatorPort] = (process.env.PATIENT_SERVICE ?? '').split(':');
const agent = new http.Agent({ keepAlive: true, maxSockets: 128 });

const excursions = [];
for (let i = 0; i < 900; i++) {
  excursions.push({ id: `E${i}`, title: `Round the skerries, ${1 + (i % 5)} h`, cents: 1900 + 70 * (i % 41), pier: i % 9 });
}

/** Chains runs one task after another for each key. */
class Chains {
  #last = new Map();

  run(key, task) {
    const result = (this.#last.get(key) ?? Promise.resolve()).then(task);
    const settled = result.catch(() => {});
    this.#last.set(key, settled);
    settled.then(() => {
      if (this.#last.get(key) === settled) this.#last.delete(key);
    });
    return result;
  }
}
const chains = new Chains();

/** reserve asks the operator for a number. */
function reserve(excursion) {
  return new Promise((resolve, reject) => {
    const path = `/reserve?excursion=${excursion.id}`;
    const request = http.get({ host: operatorHost, port: operatorPort, path, agent }, (answer) => {
      const parts = [];
      answer.on('data', (part) => parts.push(part));
      answer.on('end', () => resolve(Buffer.concat(parts).length));
      answer.on('error', reject);
    });
    request.setTimeout(10_000, () => request.destroy(new Error('the operator is late')));
    request.on('error', reject);
  });
}

/** others are excursions that may be liked as well. */
function others(excursion) {
  return excursions
    .filter((e) => e !== excursion)
    .map((e) => ({ id: e.id, title: e.title, apart: Math.abs(e.cents - excursion.cents) + 90 * Math.abs(e.pier - excursion.pier) }))
    .sort((a, b) => a.apart - b.apart || a.id.localeCompare(b.id))
    .slice(0, 6);
}

async function serve(request, response) {
  try {
    const excursion = excursions[crypto.randomInt(excursions.length)];
    const number = await chains.run(flags.cured ? excursion.id : 'all', () => reserve(excursion));
    const body = JSON.stringify({ ...excursion, number, others: others(excursion) });
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) });
    response.end(body);
  } catch (error) {
    response.writeHead(502, { 'content-type': 'text/plain' });
    response.end(`${error.message}\n`);
  }
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
