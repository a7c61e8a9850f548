// berths tells where a ship can lie. So that nobody else's plan of a quay is changed, each request
// copies all of it with JSON.stringify and JSON.parse, marks two berths in the copy, and looks for
// a free one. Node's own perf map is on, and perf is allowed.
//
// Cured, only the berths that are marked are copied.
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

const QUAYS = 7;
const BERTHS = 400;

/** plans are the berths of each quay. */
const plans = Array.from({ length: QUAYS }, (_, quay) => ({
  quay: `Quay ${quay}`,
  berths: Array.from({ length: BERTHS }, (_, i) => ({
    id: `${quay}-${i}`,
    metres: 8 + ((i * 7) % 90),
    depth: 2.5 + ((i * 13) % 60) / 10,
    power: i % 3 === 0 ? { volts: 400, amperes: 32 + (i % 4) * 16 } : null,
    taken: (i * 31 + quay) % 5 < 2,
    notes: i % 9 ? [] : [`ring ${i} is loose`, 'no water in winter'],
  })),
}));

/** copy is the disease: a plan that its owner may change. */
const copy = (plan) => JSON.parse(JSON.stringify(plan));

/** shallow is a plan of which the berths at some places may be changed. */
function shallow(plan, places) {
  const berths = plan.berths.slice();
  for (const i of places) berths[i] = { ...berths[i] };
  return { ...plan, berths };
}

/** claimed is a plan with two more berths taken, by those who have asked and not yet paid. */
function claimed(plan) {
  const places = [crypto.randomInt(BERTHS), crypto.randomInt(BERTHS)];
  const own = flags.cured ? shallow(plan, places) : copy(plan);
  for (const i of places) own.berths[i].taken = true;
  return own;
}

/** fitting are the free berths that are long and deep enough, the smallest first. */
function fitting({ berths }, metres, depth) {
  return berths
    .filter((b) => !b.taken && b.metres >= metres && b.depth >= depth)
    .sort((a, b) => a.metres - b.metres || a.depth - b.depth || a.id.localeCompare(b.id))
    .slice(0, 6);
}

function serve(request, response) {
  const plan = claimed(plans[crypto.randomInt(QUAYS)]);
  const metres = 10 + crypto.randomInt(30);
  const lines = fitting(plan, metres, 3).map((b) => `${b.id}: ${b.metres} m, ${b.depth} m deep`);
  const free = plan.berths.reduce((sum, b) => sum + (b.taken ? 0 : b.metres), 0);
  const body = `${plan.quay}, ${free} m are free, for ${metres} m:\n${lines.join('\n')}\n`;
  response.writeHead(200, {
    'content-type': 'text/plain',
    etag: `"${crypto.createHash('sha1').update(body).digest('base64url')}"`,
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
} else {
  const server = http.createServer(serve);
  server.keepAliveTimeout = 120_000;
  server.listen(Number(port), host);
  process.on('disconnect', () => process.exit(0)); // the primary is gone
}
process.on('SIGTERM', () => process.exit(0));
