// chartrooms tells which charts a ship needs for a passage, and what has been corrected in them.
// Its middleware begins a transaction for each request, and commits it after the handler, as many a
// framework offers it. But the handler asks the chart office too, which takes 20 ms, and keeps one
// of the five connections that a process has to PostgreSQL for all that time, idle in its
// transaction.
//
// Cured, there is no such middleware: each query takes a connection and gives it back.
'use strict';
const cluster = require('node:cluster');
const crypto = require('node:crypto');
const http = require('node:http');
const os = require('node:os');
const { parseArgs } = require('node:util');
const { Connection } = require('./postgres.js');

const { values: flags } = parseArgs({
  options: {
    address: { type: 'string', default: '127.0.0.1:18800' },
    cured: { type: 'boolean', default: false },
  },
});
const [host, port] = flags.address.split(':');
const { PATIENT_DATABASE: database, PATIENT_SERVICE: office } = process.env;
if (!database || !office) {
  console.error('PATIENT_DATABASE and PATIENT_SERVICE are not set');
  process.exit(1);
}
const agent = new http.Agent({ keepAlive: true, maxSockets: 128 });

const CONNECTIONS = 5; // of a process to PostgreSQL: Sequelize has as many if nobody says more
const SEAS = 60;
const CHARTS = 40; // of each sea
const TABLES = [
  'DROP TABLE IF EXISTS charts',
  `CREATE TABLE charts (sea int, number int, title text, west int, south int, wide int, high int,
     PRIMARY KEY (sea, number))`,
  `INSERT INTO charts SELECT s, n, 'Sea ' || s || ', sheet ' || n, n * 37 % 80, n * 53 % 80,
     8 + n % 5 * 6, 8 + n % 7 * 4
     FROM generate_series(1, ${SEAS}) s, generate_series(1, ${CHARTS}) n`,
];

/** Pool has connections, and whoever finds none that is free waits for one. */
class Pool {
  #free = [];
  #waiting = [];

  constructor() {
    for (let i = 0; i < CONNECTIONS; i++) {
      const connection = new Connection(database, () => this.#give(connection));
    }
  }

  #give(connection) {
    const next = this.#waiting.shift();
    if (next) next(connection);
    else this.#free.push(connection);
  }

  async #use(work) {
    const connection = this.#free.pop() ?? (await new Promise((go) => this.#waiting.push(go)));
    try {
      return await work(connection);
    } finally {
      this.#give(connection);
    }
  }

  query(sql) {
    return this.#use((connection) => connection.query(sql));
  }

  transaction(work) {
    return this.#use(async (connection) => {
      await connection.query('BEGIN READ ONLY');
      try {
        return await work(connection);
      } finally {
        await connection.query('COMMIT');
      }
    });
  }
}

/** corrections asks the chart office how many there are. */
function corrections(sea) {
  return new Promise((resolve, reject) => {
    const asked = http.get(`http://${office}/corrections?sea=${sea}`, { agent }, (answer) => {
      let text = '';
      answer.on('data', (part) => (text += part));
      answer.on('end', () => resolve(Number.parseInt(text, 10)));
    });
    asked.on('error', reject);
  });
}

/** needed are the charts on which the ship is, mile by mile, those with the most miles first. */
function needed(charts, from, to) {
  const miles = new Map();
  for (let mile = 0; mile <= 160; mile++) {
    const x = from.x + ((to.x - from.x) * mile) / 160 + 3 * Math.sin(mile / 9);
    const y = from.y + ((to.y - from.y) * mile) / 160 + 3 * Math.cos(mile / 7);
    for (const [number, title, west, south, wide, high] of charts) {
      if (x < west || y < south || x - west > wide || y - south > high) continue;
      const key = `${number} ${title}`;
      miles.set(key, (miles.get(key) ?? 0) + 1);
    }
  }
  return [...miles].map(([chart, on]) => ({ chart, on })).sort((a, b) => b.on - a.on);
}

/** passage is the handler. */
async function passage(db) {
  const sea = 1 + crypto.randomInt(SEAS);
  const charts = await db.query(
    `SELECT number, title, west, south, wide, high FROM charts WHERE sea = ${sea} ORDER BY number`,
  );
  const corrected = await corrections(sea);
  const [from, to] = [0, 60].map((x) => ({ x: x + crypto.randomInt(20), y: crypto.randomInt(80) }));
  return { sea, corrected, charts: needed(charts, from, to) };
}

async function serve(pool, response) {
  const answer = await (flags.cured ? passage(pool) : pool.transaction(passage));
  const body = JSON.stringify(answer);
  response.writeHead(200, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
  });
  response.end(body);
}

async function fill() {
  const connection = await new Promise((ready) => {
    const made = new Connection(database, () => ready(made));
  });
  for (const sql of TABLES) await connection.query(sql);
  connection.socket.removeAllListeners('close').end();
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
  const pool = new Pool();
  const server = http.createServer((request, response) => {
    serve(pool, response).catch((error) => response.writeHead(502).end(`${error.message}\n`));
  });
  server.keepAliveTimeout = 120_000;
  server.listen(Number(port), host);
  process.on('disconnect', () => process.exit(0)); // the primary is gone
}
process.on('SIGTERM', () => process.exit(0));
