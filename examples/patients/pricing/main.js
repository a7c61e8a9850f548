// pricing shows a flat with what it would cost for a week. A service in Python has learnt prices from
// bookings; it compares a flat with each of them in turn, and is busy with that on one processor, so
// requests wait for it while this service, which asks it, has little to do.
//
// Cured, that service has sorted its bookings by their size, and looks only at those that are near.
'use strict';
const { spawn } = require('node:child_process');
const cluster = require('node:cluster');
const crypto = require('node:crypto');
const http = require('node:http');
const os = require('node:os');
const path = require('node:path');
const { parseArgs } = require('node:util');

const { values: flags } = parseArgs({
  options: {
    address: { type: 'string', default: '127.0.0.1:18800' },
    cured: { type: 'boolean', default: false },
  },
});
const [host, port] = flags.address.split(':');
const agent = new http.Agent({ keepAlive: true, maxSockets: 64 });

const flats = [];
for (let i = 0; i < 900; i++) {
  flats.push({ id: `F${100 + i}`, metres: 24 + ((i * 37) % 140), floor: i % 6, beds: 1 + (i % 5), street: `Quay ${i % 71}` });
}

/** estimate asks what a flat is worth. */
function estimate(flat) {
  return new Promise((resolve, reject) => {
    const query = `/?metres=${flat.metres}&floor=${flat.floor}&beds=${flat.beds}`;
    const request = http.get({ host: '127.0.0.1', port: process.env.ESTIMATES, path: query, agent }, (answer) => {
      const parts = [];
      answer.on('data', (part) => parts.push(part));
      answer.on('end', () => resolve(JSON.parse(Buffer.concat(parts).toString())));
      answer.on('error', reject);
    });
    request.setTimeout(10_000, () => request.destroy(new Error('the estimate is late')));
    request.on('error', reject);
  });
}

/** alike is which flats are most like one. */
function alike(flat) {
  const scored = flats.filter((f) => f !== flat).map((f) => ({
    id: f.id,
    street: f.street,
    apart: Math.abs(f.metres - flat.metres) + 9 * Math.abs(f.beds - flat.beds) + 2 * Math.abs(f.floor - flat.floor),
  }));
  scored.sort((a, b) => a.apart - b.apart || a.id.localeCompare(b.id));
  return scored.slice(0, 8);
}

async function serve(request, response) {
  try {
    const flat = flats[crypto.randomInt(flats.length)];
    const { cents } = await estimate(flat);
    const price = (cents / 100).toLocaleString('en', { style: 'currency', currency: 'EUR' });
    const body = JSON.stringify({ ...flat, price, alike: alike(flat) });
    response.writeHead(200, {
      'content-type': 'application/json',
      etag: `"${crypto.createHash('sha1').update(body).digest('base64url')}"`,
    });
    response.end(body);
  } catch (error) {
    response.writeHead(502, { 'content-type': 'text/plain' });
    response.end(`${error.message}\n`);
  }
}

/** begin starts the estimates, and a process for each processor when they can be asked. */
function begin() {
  const words = [path.join(__dirname, 'estimates.py')].concat(flags.cured ? ['--sorted'] : []);
  const estimates = spawn('/usr/bin/python3', words, { stdio: ['pipe', 'pipe', 'inherit'] });
  let missing = os.availableParallelism();
  estimates.stdout.once('data', (said) => {
    for (let i = missing; i > 0; i--) cluster.fork({ ESTIMATES: String(said).trim() });
  });
  estimates.once('exit', () => process.exit(1));
  cluster.on('listening', (_, at) => {
    if (--missing === 0) console.log(`ready ${at.address}:${at.port}`);
  });
}

if (cluster.isPrimary) {
  begin();
} else {
  const server = http.createServer(serve);
  server.keepAliveTimeout = 120_000;
  server.listen(Number(port), host);
  process.on('disconnect', () => process.exit(0)); // the primary is gone
}
process.on('SIGTERM', () => process.exit(0));
