// nodeagents counts which browsers visit a site: it looks at the last visits of a page with a regular
// expression whose two stars can divide the same spaces and words in many ways, so that a line which does
// not match is tried again and again. Node's own perf map is on, and perf is allowed.
//
// Cured, the expression has one way to match a line.
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

const PATTERN = flags.cured
  ? /^Mozilla\/5\.0 \([^()]*\)[^()]*?\bversion (\d+)$/
  : /^Mozilla\/5\.0 \([^()]*\)(?:\s*\S*)*?\s*\bversion (\d+)$/;

const visits = [];
for (let i = 0; i < 4000; i++) {
  const system = ['X11; Linux x86_64', 'Windows NT 10.0; Win64', 'Macintosh; Intel Mac OS X'][i % 3];
  const end = i % 18 ? `version ${60 + (i % 50)}` : `build/${i % 7}`;
  visits.push({ page: `/isles/${i % 83}`, agent: `Mozilla/5.0 (${system}) Gecko 1 ${end}`, at: i });
}

/** versions counts the browsers' versions among some visits. */
function versions(some) {
  const counts = new Map();
  for (const { agent } of some) {
    const version = PATTERN.exec(agent)?.[1] ?? 'other';
    counts.set(version, (counts.get(version) ?? 0) + 1);
  }
  return [...counts].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]));
}

/** pages are those that were visited most. */
function pages(some) {
  const counts = {};
  for (const { page } of some) counts[page] = (counts[page] ?? 0) + 1;
  return Object.entries(counts).sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0])).slice(0, 10);
}

function serve(request, response) {
  const first = crypto.randomInt(visits.length - 300);
  const some = visits.slice(first, first + 300);
  const body = JSON.stringify({ versions: versions(some), pages: pages(some), last: some.at(-1) });
  response.writeHead(200, {
    'content-type': 'application/json',
    etag: `"${crypto.createHash('sha1').update(body).digest('base64url')}"`,
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
