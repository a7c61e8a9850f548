// atlases keeps the plans of harbours that were asked for last. What it keeps takes nearly all of the heap that
// --max-old-space-size gives to its processes, so that V8 collects again and again; perf is allowed, and Node writes
// its perf map.
//
// Cured, --max-old-space-size gives them eight times as much.
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
const MEGABYTES = flags.cured ? 768 : 96;

const HARBOURS = 20_000;
const PLANS = 4300; // are kept
const POINTS = 160; // in each of them

/** survey makes the plan of a harbour. */
function survey(harbour) {
  const points = [];
  for (let i = 0; i < POINTS; i++) {
    points.push({ x: (harbour * 37 + i * 11) % 900 + 0.5, y: (harbour * 53 + i * 29) % 700 + 0.25, depth: (harbour + i) % 30 });
  }
  return { harbour, points };
}

/** Shelf keeps the plans that were asked for last. */
class Shelf {
  #plans = new Map();

  plan(harbour) {
    let plan = this.#plans.get(harbour);
    if (plan) {
      this.#plans.delete(harbour);
    } else {
      plan = survey(harbour);
      if (this.#plans.size >= PLANS) this.#plans.delete(this.#plans.keys().next().value);
    }
    this.#plans.set(harbour, plan);
    return plan;
  }
}

/** shallow are the places of a plan that a ship cannot pass, the nearest to the middle first. */
function shallow(plan, draught) {
  return plan.points.filter((p) => p.depth < draught)
    .map((p) => ({ ...p, far: Math.hypot(p.x - 450, p.y - 350) }))
    .sort((a, b) => a.far - b.far)
    .slice(0, 10);
}

if (cluster.isPrimary) {
  cluster.setupPrimary({ execArgv: [...process.execArgv, `--max-old-space-size=${MEGABYTES}`] });
  let missing = os.availableParallelism();
  for (let i = missing; i > 0; i--) cluster.fork();
  cluster.on('listening', (_, at) => {
    if (--missing === 0) console.log(`ready ${at.address}:${at.port}`);
  });
} else {
  const shelf = new Shelf();
  for (let harbour = 0; harbour < PLANS; harbour++) shelf.plan(harbour);
  const server = http.createServer((request, response) => {
    const draught = 4 + crypto.randomInt(9);
    const found = [0, 1, 2].map(() => shelf.plan(crypto.randomInt(HARBOURS))).map((p) => ({ harbour: p.harbour, shallow: shallow(p, draught) }));
    const body = JSON.stringify({ draught, found });
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) });
    response.end(body);
  });
  server.keepAliveTimeout = 120_000;
  server.listen(Number(port), host);
  process.on('disconnect', () => process.exit(0)); // the primary is gone
}
process.on('SIGTERM', () => process.exit(0));
