// steamers hands out the boarding passes of a family, each with a signature that a scanner on the
// pier can check without a network. The key is given to crypto.sign as the text of its file, which
// OpenSSL reads, decodes and checks once more for each pass; perf is allowed, and Node writes its
// perf map.
//
// Cured, the key is read once.
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

const FAMILY = 4;
const SEATS = 500;
const STEAMERS = ['Alma', 'Borealis', 'Kaimana', 'Orkney Belle', 'Saint Brendan'];
const CLASSES = ['saloon', 'deck', 'cabin'];

// In production these come from a file; a service that runs for an exam makes its own.
const { privateKey: pem } = crypto.generateKeyPairSync('rsa', {
  modulusLength: 1024,
  publicKeyEncoding: { type: 'spki', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
});
const key = flags.cured ? crypto.createPrivateKey(pem) : pem;

/** signPass is the signature of a pass, as the scanner wants it. */
function signPass(text) {
  return crypto.sign('sha256', Buffer.from(text), key).toString('base64url');
}

/** seats are those of a steamer that are free, the best first. */
function seats(steamer, first) {
  return Array.from({ length: SEATS }, (_, i) => ({ seat: (first + i * 7) % 911, row: i % 40 }))
    .map((s) => ({ ...s, worth: (s.row % 4 ? 0 : 30) + ((s.seat * 13 + steamer) % 23) }))
    .sort((a, b) => b.worth - a.worth || a.seat - b.seat)
    .slice(0, FAMILY);
}

/** passes are those of a family. */
function passes(booking) {
  const steamer = booking % STEAMERS.length;
  return seats(steamer, booking % 911).map((s, guest) => {
    const place = [CLASSES[s.row % CLASSES.length], s.row, s.seat].join('-');
    const pass = [booking, STEAMERS[steamer], guest + 1, place].join('|');
    return { pass, signature: signPass(pass) };
  });
}

function serve(request, response) {
  const body = JSON.stringify(passes(crypto.randomInt(1_000_000)));
  response.writeHead(200, { 'content-type': 'application/json' });
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
