// captains finds what captains have written about a thing in their remarks, with the full-text
// search of PostgreSQL. There is an index on to_tsvector('english', remark), but the query says
// to_tsvector(remark), without the language. That is another expression for PostgreSQL, although
// English is its default, so the index does not help: all remarks are read and taken apart into
// words once more for each request.
//
// Cured, the query names the language as the index does.
'use strict';
const cluster = require('node:cluster');
const crypto = require('node:crypto');
const http = require('node:http');
const os = require('node:os');
const { parseArgs } = require('node:util');
const { Connection } = require('../chartrooms/postgres.js');

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

const CONNECTIONS = 16; // of a process to PostgreSQL
const REMARKS = 240; // more would be more than two processors can take apart for each request
const SHOWN = 20;
const ALIKE = 0.8; // from here on, two remarks say the same
const DID = ['rigged', 'lost', 'cleaned', 'painted', 'inspected', 'replaced', 'borrowed'];
const THINGS = [
  'anchor', 'barometer', 'capstan', 'davit', 'ensign', 'hawser', 'ladder', 'mast', 'oar', 'pump',
  'rudder', 'lantern',
];
const WHERE = ['off the island', 'in the harbour', 'during a gale', 'near the lighthouse'];
const TABLES = [
  'DROP TABLE IF EXISTS remarks',
  'CREATE TABLE remarks (id int PRIMARY KEY, captain int NOT NULL, remark text NOT NULL)',
  "CREATE INDEX remarks_words ON remarks USING gin (to_tsvector('english', remark))",
  `INSERT INTO remarks VALUES ${Array.from({ length: REMARKS }, (_, n) => remark(n)).join()}`,
  'VACUUM ANALYZE remarks', // so that the index has no list of what is still to be sorted in
];

/** remark is the row of one; 20 remarks name each thing. */
function remark(n) {
  const thing = THINGS[n % THINGS.length];
  const did = DID[n % DID.length];
  const text = `Day ${1 + (n % 90)}: the ${thing} was ${did} ${WHERE[n % WHERE.length]}`;
  return `(${n}, ${n % 41}, '${text}, at ${n % 24} hours, wind force ${n % 11}')`;
}

// The words of a remark, as the query asks for them.
const words = flags.cured ? "to_tsvector('english', remark)" : 'to_tsvector(remark)';

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

  async query(sql) {
    const connection = this.#free.pop() ?? (await new Promise((go) => this.#waiting.push(go)));
    try {
      return await connection.query(sql);
    } finally {
      this.#give(connection);
    }
  }
}

/** parts are all the pieces of three letters in a text. */
function parts(text) {
  const found = new Set();
  for (let at = 0; at + 3 <= text.length; at++) found.add(text.slice(at, at + 3));
  return found;
}

/** likeness is how much of two texts is the same: from 0, nothing, to 1. */
function likeness(one, other) {
  let both = 0;
  for (const part of one) if (other.has(part)) both++;
  return both / (one.size + other.size - both);
}

/** different leaves out the remarks that say the same as one before. */
function different(rows) {
  const kept = [];
  for (const [id, captain, text] of rows) {
    const has = parts(text);
    const most = Math.max(0, ...kept.map((other) => likeness(has, other.has)));
    if (most < ALIKE) kept.push({ id, captain, text, has, likeness: most });
  }
  return kept.map(({ has, ...rest }) => ({ ...rest, parts: has.size }));
}

async function serve(pool, response) {
  const thing = THINGS[crypto.randomInt(THINGS.length)];
  const rows = await pool.query(
    `SELECT id, captain, remark FROM remarks
     WHERE ${words} @@ plainto_tsquery('english', '${thing}s') ORDER BY id DESC LIMIT ${SHOWN}`,
  );
  const body = JSON.stringify({ thing, remarks: different(rows) });
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
