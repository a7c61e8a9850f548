// dinghies plans a day's hire of dinghies. A request that belongs to a basket once had to reach the
// process that kept the basket in its memory, so the address of the client chooses the process, as
// packages for sticky sessions do it. But all clients come through a proxy now, with one address,
// so one process gets all connections and uses one processor, and the others have nothing to do.
//
// Cured, the processes take turns. The basket is in the request anyhow.
'use strict';
const cluster = require('node:cluster');
const crypto = require('node:crypto');
const http = require('node:http');
const net = require('node:net');
const os = require('node:os');
const { parseArgs } = require('node:util');

const { values: flags } = parseArgs({
  options: {
    address: { type: 'string', default: '127.0.0.1:18800' },
    cured: { type: 'boolean', default: false },
  },
});
const [host, port] = flags.address.split(':');

const DINGHIES = 160;
const QUARTERS = 48; // quarters of an hour, of a day
const CLASSES = ['Optimist', 'Laser', 'Topper', 'Wayfarer'];

/** fleet has the dinghies, each with what it costs and the quarters that are taken. */
const fleet = Array.from({ length: DINGHIES }, (_, n) => ({
  sail: 100 + n * 7,
  kind: CLASSES[n % CLASSES.length],
  cents: 300 + ((n * 31) % 9) * 25,
  taken: Array.from({ length: QUARTERS }, (_, q) => (q * 5 + n * 11) % 13 < 4),
}));

/** basket is what a request wants: some hires, each of a class for some time after a quarter. */
function basket(url) {
  const seed = Number(url.searchParams.get('basket') ?? crypto.randomInt(10_000));
  return Array.from({ length: 9 }, (_, n) => ({
    kind: CLASSES[(seed + n) % CLASSES.length],
    from: (seed * 7 + n * 5) % 24,
    quarters: 2 + ((seed + n * 3) % 4),
  }));
}

/** fits says whether a dinghy is free from a quarter to another one. */
function fits(dinghy, at, end, planned) {
  for (let q = at; q < end; q++) if (dinghy.taken[q]) return false;
  return !planned.some((p) => p.sail === dinghy.sail && p.at < end && at < p.end);
}

/** place is where a hire fits best: early, cheap, and without a gap before it. */
function place({ kind, from, quarters }, planned) {
  let best;
  for (const dinghy of fleet) {
    if (dinghy.kind !== kind) continue;
    for (let at = from; at + quarters <= QUARTERS; at++) {
      if (!fits(dinghy, at, at + quarters, planned)) continue;
      const gap = at > 0 && !dinghy.taken[at - 1] ? 40 : 0;
      const cost = (at - from) * 60 + dinghy.cents * quarters + gap;
      if (best && best.cost <= cost) continue;
      best = { sail: dinghy.sail, kind, at, end: at + quarters, cost };
    }
  }
  return best;
}

/** plan tries the hires in several orders, and keeps the cheapest of the plans. */
function plan(hires) {
  let best = { cost: Infinity };
  for (let turn = 0; turn < hires.length; turn++) {
    const planned = [];
    for (const hire of [...hires.slice(turn), ...hires.slice(0, turn)]) {
      const found = place(hire, planned);
      if (found) planned.push(found);
    }
    const cost = planned.reduce((sum, { cost }) => sum + cost, 0);
    if (cost < best.cost) best = { cost, planned };
  }
  return best;
}

function serve(request, response) {
  const { planned } = plan(basket(new URL(request.url, 'http://dinghies')));
  const body = JSON.stringify(planned.map(({ sail, kind, at, end }) => ({
    sail,
    kind,
    from: `${9 + Math.floor(at / 4)}:${String((at % 4) * 15).padStart(2, '0')}`,
    hours: (end - at) / 4,
  })));
  response.writeHead(200, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
  });
  response.end(body);
}

/** byAddress is the number of the process that a client belongs to. */
function byAddress(client, processes) {
  return crypto.createHash('md5').update(client).digest().readUInt32BE() % processes;
}

if (cluster.isPrimary) {
  const workers = Array.from({ length: os.availableParallelism() }, () => cluster.fork());
  let turn = 0;
  // A worker reads from the connection, so nothing may be read here.
  const server = net.createServer({ pauseOnConnect: true, noDelay: true }, (connection) => {
    const { length } = workers;
    const chosen = flags.cured ? turn++ % length : byAddress(connection.remoteAddress, length);
    workers[chosen].send('connection', connection);
  });
  let missing = workers.length;
  cluster.on('message', () => {
    if (--missing > 0) return;
    server.listen(Number(port), host, 1024, () => {
      console.log(`ready ${host}:${server.address().port}`);
    });
  });
  cluster.on('exit', (_, code) => process.exit(code)); // it is not the same service with fewer
} else {
  const server = http.createServer(serve); // listens nowhere: the primary does
  server.keepAliveTimeout = 120_000;
  process.on('message', (_, connection) => {
    if (!connection) return; // it was closed on its way here
    server.emit('connection', connection);
    connection.resume();
  });
  process.send('started');
  process.on('disconnect', () => process.exit(0)); // the primary is gone
}
process.on('SIGTERM', () => process.exit(0));
