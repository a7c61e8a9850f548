// nodeagent is a shop's product page. The warehouse behind it takes 10 ms and could answer hundreds at
// once, but the keep-alive agent that asks it may have two sockets in each process: a request waits in
// the agent for one of them, while the event loops have nothing to do.
//
// Cured, the agent may have 128.
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
const [stockHost, stockPort] = (process.env.PATIENT_SERVICE ?? '').split(':');

const agent = new http.Agent({ keepAlive: true, maxSockets: flags.cured ? 128 : 2 });

const products = new Map();
for (let i = 0; i < 2500; i++) {
  const sku = `P${1000 + i}`;
  products.set(sku, {
    sku,
    title: `Mooring line ${8 + (i % 24)} mm`,
    cents: 490 + 37 * i,
    tags: ['rope', i % 2 ? 'polyester' : 'nylon', `reel-${i % 7}`],
  });
}

/** stock asks the warehouse how many there are. */
function stock() {
  return new Promise((resolve, reject) => {
    const request = http.get({ host: stockHost, port: stockPort, path: '/stock', agent }, (answer) => {
      const parts = [];
      answer.on('data', (part) => parts.push(part));
      answer.on('end', () => resolve(Number.parseInt(Buffer.concat(parts).toString(), 10)));
      answer.on('error', reject);
    });
    request.setTimeout(10_000, () => request.destroy(new Error('the warehouse is late')));
    request.on('error', reject);
  });
}

/** related is what is most like a product: the same material, reel and about the same price. */
function related(product) {
  const scored = [];
  for (const other of products.values()) {
    if (other === product) continue;
    const shared = other.tags.filter((tag) => product.tags.includes(tag)).length;
    scored.push({ sku: other.sku, score: shared - Math.abs(other.cents - product.cents) / 20_000 });
  }
  scored.sort((a, b) => b.score - a.score || a.sku.localeCompare(b.sku));
  return scored.slice(0, 8).map(({ sku }) => sku);
}

async function page(url) {
  const product = products.get(url.searchParams.get('sku') ?? 'P1042');
  if (!product) return [404, { error: 'no such product' }];
  const available = await stock();
  return [200, {
    ...product,
    price: (product.cents / 100).toLocaleString('en', { style: 'currency', currency: 'EUR' }),
    available,
    related: related(product),
  }];
}

async function serve(request, response) {
  try {
    const [status, value] = await page(new URL(request.url, 'http://shop'));
    const body = JSON.stringify(value);
    response.writeHead(status, {
      'content-type': 'application/json',
      etag: `"${crypto.createHash('sha1').update(body).digest('base64url')}"`,
    });
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
