// stowage tells where crates stand in a hold. Its level is debug, which somebody had needed for a
// day, and for each bay in which a crate cannot stand a line is logged that shows crate and bay
// with %o. Node's own perf map is on, and perf is allowed.
//
// Cured, the level is info, so none of these lines is logged.
'use strict';
const cluster = require('node:cluster');
const { Console } = require('node:console');
const crypto = require('node:crypto');
const fs = require('node:fs');
const http = require('node:http');
const os = require('node:os');
const { Writable } = require('node:stream');
const { parseArgs } = require('node:util');

const { values: flags } = parseArgs({
  options: {
    address: { type: 'string', default: '127.0.0.1:18800' },
    cured: { type: 'boolean', default: false },
  },
});
const [host, port] = flags.address.split(':');

const CRATES = 500;
const BAYS = 260;
const LEVELS = ['debug', 'info', 'warn'];

/** Log writes lines of its level and of those above to a file. */
class Log {
  constructor(path, level) {
    const file = fs.openSync(path, 'a');
    const write = (line, _, done) => {
      fs.writeSync(file, line);
      done();
    };
    this.console = new Console({ stdout: new Writable({ write, decodeStrings: false }) });
    this.least = LEVELS.indexOf(level);
  }

  debug(text, ...values) {
    if (this.least <= 0) this.console.log(`${new Date().toISOString()} DEBUG ${text}`, ...values);
  }

  info(text, ...values) {
    if (this.least <= 1) this.console.log(`${new Date().toISOString()} INFO ${text}`, ...values);
  }
}

const log = new Log('/dev/null', flags.cured ? 'info' : 'debug');

const crates = Array.from({ length: CRATES }, (_, i) => ({
  id: `CR${1000 + i}`, tonnes: 2 + ((i * 11) % 17), cold: i % 7 === 0, marks: i % 3 ? [] : ['this side up'],
}));
const bays = Array.from({ length: BAYS }, (_, i) => ({
  number: i, deck: i % 4, most: 4 + ((i * 7) % 16), plug: i % 3 === 0, x: i % 20, y: Math.floor(i / 20),
}));

/** fits tells whether a crate can stand in a bay. */
function fits(crate, bay) {
  if (crate.tonnes <= bay.most && (!crate.cold || bay.plug)) return true;
  log.debug('%o cannot stand in %o', crate, bay);
  return false;
}

/** plan is where some crates stand, each as near to a hatch as it can. */
function plan(some) {
  const [x, y] = [crypto.randomInt(20), crypto.randomInt(13)];
  const free = bays
    .map((bay) => ({ bay, far: Math.hypot(bay.x - x, bay.y - y) + 3 * bay.deck }))
    .sort((a, b) => a.far - b.far || a.bay.number - b.bay.number)
    .map(({ bay }) => bay);
  return some.map((crate) => {
    const at = free.findIndex((bay) => fits(crate, bay));
    const [bay] = free.splice(at, 1);
    return { crate: crate.id, bay: bay.number, deck: bay.deck };
  });
}

function serve(request, response) {
  const first = crypto.randomInt(CRATES - 16);
  const body = `${JSON.stringify(plan(crates.slice(first, first + 16)))}\n`;
  response.writeHead(200, {
    'content-type': 'application/json',
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
  log.info('%d crates, %d bays', CRATES, BAYS);
  const server = http.createServer(serve);
  server.keepAliveTimeout = 120_000;
  server.listen(Number(port), host);
  process.on('disconnect', () => process.exit(0)); // the primary is gone
}
process.on('SIGTERM', () => process.exit(0));
