// nodehash stretches each visitor's password with pbkdf2Sync, in the event loop: one thread computes,
// whatever the number of processors.
//
// Cured, it asks libuv's threads to do it, with the asynchronous call of the same library.
'use strict';
const crypto = require('node:crypto');
const http = require('node:http');
const { parseArgs } = require('node:util');

const { values: flags } = parseArgs({
  options: {
    address: { type: 'string', default: '127.0.0.1:18800' },
    cured: { type: 'boolean', default: false },
  },
});
const [host, port] = flags.address.split(':');
const rounds = 3000; // of the hash: about a millisecond and a half
const length = 32; // of a key in bytes

function enter(request, response) {
  response.end(`${crypto.pbkdf2Sync('guest', request.url, rounds, length, 'sha256').toString('hex')}\n`);
}

function enterBesideTheLoop(request, response) {
  crypto.pbkdf2('guest', request.url, rounds, length, 'sha256', (error, key) => {
    response.statusCode = error ? 500 : 200;
    response.end(error ? error.message : `${key.toString('hex')}\n`);
  });
}

const server = http.createServer(flags.cured ? enterBesideTheLoop : enter);
server.keepAliveTimeout = 120_000;
server.listen(Number(port), host, () => {
  const at = server.address();
  console.log(`ready ${at.address}:${at.port}`);
});
process.on('SIGTERM', () => process.exit(0));
