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
const [buoyHost, buoyPort] = (process.env.PATIENT_SERVICE ?? '').split(':');
const agent = new http.Agent({ keepAlive: true });

const divers = [];
for (let i = 0; i < 400; i++) {
  divers.push({ id: `D${i}`, name: `Diver & Sons ${i}`, metres: 3 + ((i * 11) % 38), minutes: 5 + (i % 47), buoy: i % 13 });
}

/** signal asks a buoy whether it has heard of its divers. */
function signal(buoy) {
  return new Promise((resolve, reject) => {
    const request = http.get({ host: buoyHost, port: buoyPort, path: `/buoys/${buoy}`, agent }, (answer) => {
      const parts = [];
      answer.on('data', (part) => parts.push(part));
      answer.on('end', () => resolve(Buffer.concat(parts).toString().trim()));
      answer.on('error', reject);
    });
    request.setTimeout(10_000, () => request.destroy(new Error('the buoy is late')));
    request.on('error', reject);
  });
}

/** below are the divers at a buoy, the deepest first, with the minutes that they have to wait on their way up. */
function below(buoy) {
  return divers
    .filter((d) => d.buoy === buoy)
    .map((d) => ({ ...d, stops: Array.from({ length: Math.floor(d.metres / 9) }, (_, n) => Math.ceil((d.minutes * (n + 1)) / 12)) }))
    .sort((a, b) => b.metres - a.metres || a.id.localeCompare(b.id));
}

async function serve(request, response) {
  try {
    const buoy = crypto.randomInt(13);
    const body = JSON.stringify({ buoy, signal: await signal(buoy), divers: below(buoy) });
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) });
    response.end(body);
  } catch (error) {
    response.writeHead(502, { 'content-type': 'text/plain' });
    response.end(`${error.message}\n`);
  }
}

cluster.schedulingPolicy = cluster.SCHED_NONE; // each process accepts for itself
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
