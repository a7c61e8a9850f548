// nodelookup looks up the domain of each customer's mail address, and the resolver takes 10 ms.
// dns.lookup is asynchronous to the service, but it blocks one of libuv's threads, of which there are
// four unless somebody asks for more.
//
// Cured, there are 64 of them.
'use strict';
const crypto = require('node:crypto');
const dns = require('node:dns');
const http = require('node:http');
const { parseArgs } = require('node:util');

const { values: flags } = parseArgs({
  options: {
    address: { type: 'string', default: '127.0.0.1:18800' },
    cured: { type: 'boolean', default: false },
  },
});
const [host, port] = flags.address.split(':');
const rounds = 300; // of honest work, each of a few microseconds
if (flags.cured) process.env.UV_THREADPOOL_SIZE = '64'; // read when the first call needs a thread

function seal(text) {
  for (let i = 0; i < rounds; i++) text = crypto.createHash('sha256').update(text).digest('hex');
  return text;
}

const server = http.createServer((request, response) => {
  dns.lookup('customer.test', { family: 4 }, (error, address) => {
    response.statusCode = error ? 500 : 200;
    response.end(error ? error.message : `${seal(address)}\n`);
  });
});
server.keepAliveTimeout = 120_000;
server.listen(Number(port), host, () => {
  const at = server.address();
  console.log(`ready ${at.address}:${at.port}`);
});
process.on('SIGTERM', () => process.exit(0));
