// customs tells what duty is to be paid, over HTTPS. maxRequestsPerSocket is 1: somebody took it for how many requests
// of a connection may be under way. So each connection is closed after one answer, and the next request begins with a
// handshake.
//
// Cured, maxRequestsPerSocket is left alone.
'use strict';
const cluster = require('node:cluster');
const crypto = require('node:crypto');
const fs = require('node:fs');
const https = require('node:https');
const os = require('node:os');
const path = require('node:path');
const { execFileSync } = require('node:child_process');
const { parseArgs } = require('node:util');

const { values: flags } = parseArgs({
  options: {
    address: { type: 'string', default: '127.0.0.1:18800' },
    cured: { type: 'boolean', default: false },
  },
});
const [host, port] = flags.address.split(':');

/** certify makes a certificate and its key. */
function certify() {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'patient-certificate-'));
  try {
    const [cert, key] = ['certificate.pem', 'key.pem'].map((name) => path.join(folder, name));
    const made = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', key, '-out', cert];
    execFileSync('openssl', ['req', '-x509', '-days', '2', '-subj', '/CN=localhost', ...made], { stdio: 'pipe' });
    return { cert: fs.readFileSync(cert, 'utf8'), key: fs.readFileSync(key, 'utf8') };
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
}

const goods = [];
for (let i = 0; i < 600; i++) {
  goods.push({ code: `${1000 + i * 7}`, name: `Tea no. ${i}`, percent: 2 + ((i * 13) % 19), kilo: 30 + ((i * 31) % 700) });
}

/** duty is what is to be paid for some goods, the most expensive first. */
function duty(first) {
  return goods
    .slice(first, first + 200)
    .map((g) => ({ ...g, cents: Math.ceil((g.kilo * g.percent * (1 + (first % 9))) / 100) }))
    .sort((a, b) => b.cents - a.cents || a.code.localeCompare(b.code))
    .slice(0, 25);
}

function serve(request, response) {
  const body = JSON.stringify(duty(crypto.randomInt(goods.length - 200)));
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) });
  response.end(body);
}

if (cluster.isPrimary) {
  const pair = certify();
  let missing = os.availableParallelism();
  for (let i = missing; i > 0; i--) cluster.fork().send(pair);
  cluster.on('listening', (_, at) => {
    if (--missing === 0) console.log(`ready ${at.address}:${at.port}`);
  });
} else {
  process.once('message', (pair) => {
    const server = https.createServer(pair, serve);
    server.keepAliveTimeout = 120_000;
    if (!flags.cured) server.maxRequestsPerSocket = 1;
    server.listen(Number(port), host, 1024);
  });
  process.on('disconnect', () => process.exit(0)); // the primary is gone
}
process.on('SIGTERM', () => process.exit(0));
