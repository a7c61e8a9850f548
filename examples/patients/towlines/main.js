// towlines tells which towlines hold for a tow, for which it asks the stores, over HTTPS, whether
// the one that it would take is there. The status of the answer says it, and nobody needs the rest:
// so the answer is destroyed, which closes the connection under it, and the next question begins
// with a TLS handshake.
//
// Cured, the rest is read and dropped, so the agent keeps the connection.
'use strict';
const cluster = require('node:cluster');
const crypto = require('node:crypto');
const fs = require('node:fs');
const http = require('node:http');
const https = require('node:https');
const os = require('node:os');
const tls = require('node:tls');
const { parseArgs } = require('node:util');

const { values: flags } = parseArgs({
  options: {
    address: { type: 'string', default: '127.0.0.1:18800' },
    cured: { type: 'boolean', default: false },
  },
});
const [host, port] = flags.address.split(':');
const { PATIENT_SERVICE: stores, PATIENT_CERTIFICATE: certificate } = process.env;
if (!stores || !certificate) {
  console.error('PATIENT_SERVICE and PATIENT_CERTIFICATE are not set: give HOST:PORT and a file');
  process.exit(1);
}
const secureContext = tls.createSecureContext({ ca: fs.readFileSync(certificate) });
const agent = new https.Agent({ keepAlive: true, maxFreeSockets: 256, secureContext });
const PATIENCE = 10_000; // milliseconds that an answer may take

const SHOWN = 12;
const WAVES = 120; // of a seaway
const lines = Array.from({ length: 700 }, (_, n) => ({
  id: `T${n}`,
  metres: 80 + ((n * 37) % 420),
  tonnes: 20 + ((n * 53) % 240),
  steel: n % 3 === 0,
  used: (n * 11) % 90, // times
}));

/** inStore asks whether a line is in the stores. */
function inStore(line) {
  return new Promise((resolve, reject) => {
    const request = https.get(`https://${stores}/lines/${line.id}`, { agent }, (answer) => {
      resolve(answer.statusCode === 200);
      if (flags.cured) answer.resume();
      else answer.destroy();
    });
    request.setTimeout(PATIENCE, () => request.destroy(new Error('the stores are late')));
    request.on('error', reject);
  });
}

/** holding are the lines that hold, the one with the least to spare first. */
function holding(tonnes, metres) {
  return lines
    .filter((line) => line.tonnes >= tonnes && line.metres >= metres && line.used < 80)
    .map((line) => ({ ...line, spare: (line.tonnes - tonnes) * 3 + line.metres - metres }))
    .sort((a, b) => a.spare - b.spare || a.id.localeCompare(b.id))
    .slice(0, SHOWN);
}

/** pulls is how hard a line pulls in each wave of a seaway, the worst wave first. */
function pulls(line) {
  const waves = [];
  for (let wave = 1; wave <= WAVES; wave++) {
    const seal = crypto.createHash('sha256').update(`${line.id} ${wave}`).digest();
    waves.push({ wave, tonnes: (line.tonnes * (40 + (seal[0] % 50))) / 100 });
  }
  return waves.sort((a, b) => b.tonnes - a.tonnes || a.wave - b.wave).slice(0, SHOWN);
}

async function serve(request, response) {
  try {
    const found = holding(20 + crypto.randomInt(80), 80 + crypto.randomInt(150));
    const there = await inStore(found[0]);
    const body = JSON.stringify({ there, pulls: pulls(found[0]), lines: found });
    response.writeHead(200, {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
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
