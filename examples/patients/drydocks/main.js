// drydocks says what it costs to overhaul a ship, and counts what it does for each job, by the name
// of the function that does it. It finds that name in the stack of an Error that it makes for the
// purpose, so V8 walks the stack, looks up each place in the source, and writes all of it as text,
// for each job of each request; perf is allowed, and Node writes its perf map.
//
// Cured, each function says its name.
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

const SHIPS = 800;
const JOBS = 48; // of an overhaul
const DAYS = 220; // of which the cheapest are offered
const OFFERED = 8;

/** callerName is the function that has called the one that asks. */
function callerName() {
  const line = new Error().stack.split('\n')[3]; // after the message, this function and count
  return line.trim().split(' ')[1];
}

const counted = new Map(); // the times of a function, and what they cost together

/** count adds a job to what its function did. */
function count(cents, name) {
  const key = flags.cured ? name : callerName();
  const sum = counted.get(key) ?? { times: 0, cents: 0 };
  sum.times += 1;
  sum.cents += cents;
  counted.set(key, sum);
  return cents;
}

function blast(hull) {
  return count(hull.metres * hull.beam * 110, 'blast');
}

function paint(hull) {
  return count(hull.metres * hull.beam * 2 * (70 + (hull.age % 9)), 'paint');
}

function weld(hull) {
  return count(hull.plates * 9400 + hull.age * 1200, 'weld');
}

function survey(hull) {
  return count(48_000 + hull.metres * 300, 'survey');
}

const KINDS = [blast, paint, weld, survey];

/** hullOf is what is known of a ship. */
function hullOf(ship) {
  return {
    metres: 40 + ((ship * 37) % 180),
    beam: 8 + ((ship * 13) % 24),
    age: (ship * 7) % 31,
    plates: (ship * 11) % 60,
  };
}

/** dates has the days on which the dock is cheapest, the cheapest first. */
function dates(ship, metres) {
  const days = [];
  for (let day = 1; day <= DAYS; day++) {
    const seal = crypto.createHash('sha256').update(`${ship}/${day}`).digest();
    days.push({ day, cents: metres * (900 + 4 * seal[0]), tide: (seal[1] % 50) / 10 });
  }
  return days.sort((a, b) => a.cents - b.cents || a.day - b.day).slice(0, OFFERED);
}

/** overhaul is what a ship's jobs cost, one after the other, and when they can be done. */
function overhaul(ship) {
  const hull = hullOf(ship);
  const jobs = Array.from({ length: JOBS }, (_, n) => {
    const part = { ...hull, metres: Math.ceil(hull.metres / (1 + (n % 5))) };
    const job = KINDS[n % KINDS.length];
    return { part: n + 1, cents: job(part) };
  });
  return { ship, jobs, dates: dates(ship, hull.metres) };
}

function serve(request, response) {
  const what = request.url === '/counted'
    ? Object.fromEntries(counted)
    : overhaul(crypto.randomInt(SHIPS));
  const body = JSON.stringify(what);
  response.writeHead(200, {
    'content-type': 'application/json',
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
  const server = http.createServer(serve);
  server.keepAliveTimeout = 120_000;
  server.listen(Number(port), host);
  process.on('disconnect', () => process.exit(0)); // the primary is gone
}
process.on('SIGTERM', () => process.exit(0));
