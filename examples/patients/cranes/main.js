// cranes tells when a crane is free, for which it asks the yard over HTTPS. The function that asks makes an
// https.Agent for each call, so that no connection and no TLS session is ever used a second time.
//
// Cured, there is one agent, which keeps its connections.
'use strict';
const cluster = require('node:cluster');
const crypto = require('node:crypto');
const fs = require('node:fs');
const http = require('node:http');
const https = require('node:https');
const os = require('node:os');
const { parseArgs } = require('node:util');

const { values: flags } = parseArgs({
  options: {
    address: { type: 'string', default: '127.0.0.1:18800' },
    cured: { type: 'boolean', default: false },
  },
});
const [host, port] = flags.address.split(':');
const [yardHost, yardPort] = (process.env.PATIENT_SERVICE ?? '').split(':');
const ca = process.env.PATIENT_CERTIFICATE && fs.readFileSync(process.env.PATIENT_CERTIFICATE);

const cranes = [];
for (let i = 0; i < 500; i++) {
  cranes.push({ id: `C${i}`, tonnes: 5 + ((i * 7) % 60), reach: 12 + (i % 31), quay: i % 11, cents: 9000 + 130 * (i % 67) });
}

const kept = new https.Agent({ keepAlive: true, maxSockets: 128, ca });

/** lifts asks the yard how many lifts are planned. */
function lifts(crane) {
  const agent = flags.cured ? kept : new https.Agent({ ca });
  return new Promise((resolve, reject) => {
    const path = `/lifts?crane=${crane.id}`;
    const request = https.get({ host: yardHost, port: yardPort, path, agent }, (answer) => {
      const parts = [];
      answer.on('data', (part) => parts.push(part));
      answer.on('end', () => resolve(Number.parseInt(Buffer.concat(parts).toString(), 10)));
      answer.on('error', reject);
    });
    request.setTimeout(10_000, () => request.destroy(new Error('the yard is late')));
    request.on('error', reject);
  });
}

/** instead are cranes that can lift as much, the cheapest first. */
function instead(crane) {
  return cranes
    .filter((c) => c !== crane && c.tonnes >= crane.tonnes && c.reach >= crane.reach)
    .sort((a, b) => a.cents - b.cents || a.id.localeCompare(b.id))
    .slice(0, 5);
}

async function serve(request, response) {
  try {
    const crane = cranes[crypto.randomInt(cranes.length)];
    const body = JSON.stringify({ ...crane, lifts: await lifts(crane), instead: instead(crane) });
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
