// ballasts says how much water a ship has to pump from which of its ballast tanks into which, so
// that it floats level. The tanks of the ships are in PostgreSQL. Each request makes a client of
// its own, connects, asks one question and ends the client, as the first example of the driver
// does. For each connection PostgreSQL starts a process, which takes longer than the question.
//
// Cured, each process of the service has a pool of clients that stay connected.
'use strict';
const cluster = require('node:cluster');
const crypto = require('node:crypto');
const http = require('node:http');
const os = require('node:os');
const { parseArgs } = require('node:util');
const { Client, Pool } = require('../postgres/postgres.js');

const { values: flags } = parseArgs({
  options: {
    address: { type: 'string', default: '127.0.0.1:18800' },
    cured: { type: 'boolean', default: false },
  },
});
const [host, port] = flags.address.split(':');
const database = process.env.PATIENT_DATABASE;
if (!database) {
  console.error('PATIENT_DATABASE is not set: give it as postgres://user@127.0.0.1:5432/postgres');
  process.exit(1);
}

const CLIENTS = 24; // that a process keeps in its pool
const SHIPS = 400;
const TANKS = 16; // of a ship, half of them on each side
const STEPS = 40; // of pumping, at most
const FINER = 0.85; // the next amount that is tried, as a share of the last
const ENOUGH = 0.5; // metre-tonnes that nobody on board can feel
const TABLES = [
  'DROP TABLE IF EXISTS tanks',
  `CREATE TABLE tanks (ship int, tank int, aside real, ahead real, room real, water real,
     PRIMARY KEY (ship, tank))`,
  `INSERT INTO tanks SELECT ship, tank, CASE tank % 2 WHEN 0 THEN -9 ELSE 9 END,
     (tank / 2 - ${(TANKS / 2 - 1) / 2}) * 16, 320, 20 + (ship * 37 + tank * tank * 53) % 280
   FROM generate_series(1, ${SHIPS}) ship, generate_series(0, ${TANKS - 1}) tank`,
  'VACUUM ANALYZE tanks',
];

const pool = new Pool(database, CLIENTS);

async function query(sql) {
  if (flags.cured) return pool.query(sql);
  const client = new Client(database);
  await client.connect();
  try {
    return await client.query(sql);
  } finally {
    client.end();
  }
}

/** moment is how hard the water makes a ship lean: to a side, and ahead. */
function moment(tanks) {
  let [aside, ahead] = [0, 0];
  for (const tank of tanks) {
    aside += tank.aside * tank.water;
    ahead += tank.ahead * tank.water;
  }
  return { aside, ahead };
}

/** lean is what is left of a moment when that much water went from one tank to another. */
function lean(now, from, to, amount) {
  const aside = now.aside + (to.aside - from.aside) * amount;
  const ahead = now.ahead + (to.ahead - from.ahead) * amount;
  return Math.hypot(aside * 4, ahead); // a list is worse than a trim
}

/** bestStep is the two tanks, and the amount, after which the ship leans least. */
function bestStep(tanks, now) {
  let best = { left: Math.hypot(now.aside * 4, now.ahead) };
  for (const from of tanks) {
    for (const to of tanks) {
      const most = Math.min(from.water, to.room - to.water);
      for (let amount = most; from !== to && amount > 0.05; amount *= FINER) {
        const left = lean(now, from, to, amount);
        if (left < best.left) best = { from, to, amount, left };
      }
    }
  }
  return best;
}

/** level is what to pump, step by step. */
function level(tanks) {
  const steps = [];
  for (let now = moment(tanks); steps.length < STEPS; now = moment(tanks)) {
    const { from, to, amount, left } = bestStep(tanks, now);
    if (!from) break;
    from.water -= amount;
    to.water += amount;
    steps.push({ from: from.tank, to: to.tank, tonnes: Number(amount.toFixed(2)) });
    if (left < ENOUGH) break;
  }
  return steps;
}

async function serve(response) {
  const ship = 1 + crypto.randomInt(SHIPS);
  const rows = await query(
    `SELECT tank, aside, ahead, room, water FROM tanks WHERE ship = ${ship} ORDER BY tank`,
  );
  const tanks = rows.map((row) => {
    const [tank, aside, ahead, room, water] = row.map(Number);
    return { tank, aside, ahead, room, water };
  });
  const body = JSON.stringify({ ship, steps: level(tanks), left: moment(tanks) });
  response.writeHead(200, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
  });
  response.end(body);
}

async function fill() {
  const client = new Client(database);
  await client.connect();
  for (const sql of TABLES) await client.query(sql);
  client.end();
}

async function work() {
  if (flags.cured) await pool.fill();
  const server = http.createServer((request, response) => {
    serve(response).catch((error) => response.writeHead(503).end(`${error.message}\n`));
  });
  server.keepAliveTimeout = 120_000;
  server.listen(Number(port), host);
}

if (cluster.isPrimary) {
  fill().then(() => {
    let missing = os.availableParallelism();
    for (let i = missing; i > 0; i--) cluster.fork();
    cluster.on('listening', (_, at) => {
      if (--missing === 0) console.log(`ready ${at.address}:${at.port}`);
    });
    cluster.on('exit', (_, code) => process.exit(code)); // it is not the same service with fewer
  });
} else {
  work();
  process.on('disconnect', () => process.exit(0)); // the primary is gone
}
process.on('SIGTERM', () => process.exit(0));
