// lanyards hands out a shipyard's safety lanyards to its gangs of riggers. A gang takes its whole
// set, each lanyard is entered as used once more, and the gang is given a slip with a number. The
// number comes from a book, a row in PostgreSQL. There is one book for the yard, and its row is
// updated at the beginning of the transaction, so it stays locked until everything else has been
// entered: the gangs are served one after the other.
//
// Cured, each gang has a book of its own.
'use strict';
const http = require('node:http');
const { createHash } = require('node:crypto');
const { Client, Pool } = require('../postgres/postgres.js');

const GANGS = 600;
const CONNECTIONS = 32; // as many as PostgreSQL can do something for, and some that wait for us
const USES = 400; // that a lanyard loses a tenth of its strength in

// Pages of lanyards are half empty, so that a changed row stays on its page.
const TABLES = `
DROP TABLE IF EXISTS books, slips, lanyards;
CREATE TABLE books (id int PRIMARY KEY, last int NOT NULL) WITH (fillfactor = 20);
CREATE TABLE slips (
  book int, number int, gang int NOT NULL, PRIMARY KEY (book, number));
CREATE TABLE lanyards (
  id int PRIMARY KEY, gang int NOT NULL, metres int NOT NULL, kilonewtons int NOT NULL,
  uses int NOT NULL) WITH (fillfactor = 50);
INSERT INTO books SELECT n, 0 FROM generate_series(0, ${GANGS}) n;
INSERT INTO lanyards
  SELECT n, 1 + n % ${GANGS}, 1 + n % 3, 15 + n % 8, n % 50
  FROM generate_series(1, ${4 * GANGS}) n;
CREATE INDEX lanyards_gang ON lanyards (gang);
ANALYZE books, lanyards`;

const YARD = 0; // the yard's book; the others have the numbers of the gangs, from 1

/** issue enters what a gang takes, and returns the slip's number and the lanyards. */
function issue(pool, book, gang) {
  return pool.transaction(async (client) => {
    const [[number]] = await client.query(
      `UPDATE books SET last = last + 1 WHERE id = ${book} RETURNING last`);
    await client.query(`INSERT INTO slips VALUES (${book}, ${number}, ${gang})`);
    const set = await client.query(
      `SELECT id FROM lanyards WHERE gang = ${gang} ORDER BY id`);
    const taken = [];
    for (const [id] of set) {
      const [lanyard] = await client.query(
        `UPDATE lanyards SET uses = uses + 1 WHERE id = ${id}
         RETURNING id, metres, kilonewtons, uses`);
      taken.push(lanyard.map(Number));
    }
    return { number, taken };
  });
}

/** slip says what was taken, and what each lanyard still holds, with a seal against forgers. */
function slip(gang, number, taken) {
  const lines = [`slip ${number} of gang ${gang}`];
  for (const [id, metres, kilonewtons, uses] of taken) {
    const holds = kilonewtons * 0.9 ** (uses / USES);
    const fall = Math.sqrt(2 * 9.81 * metres);
    lines.push(`lanyard ${id}: ${metres} m, used ${uses} times, holds ${holds.toFixed(1)} kN, ` +
      `stops ${fall.toFixed(1)} m/s`);
  }
  lines.push(createHash('sha256').update(lines.join('\n')).digest('hex'));
  return lines.join('\n') + '\n';
}

async function answer(pool, cured, response) {
  const gang = 1 + Math.floor(Math.random() * GANGS);
  try {
    const { number, taken } = await issue(pool, cured ? gang : YARD, gang);
    response.setHeader('Content-Type', 'text/plain; charset=utf-8');
    response.end(slip(gang, number, taken));
  } catch (error) {
    response.statusCode = 503;
    response.end(`${error.message}\n`);
  }
}

async function main(words) {
  const cured = words.includes('--cured');
  const at = words.indexOf('--address');
  const [host, port] = (at < 0 ? '127.0.0.1:18800' : words[at + 1]).split(':');
  process.on('SIGTERM', () => process.exit(0));
  const database = process.env.PATIENT_DATABASE;
  if (!database) {
    console.error('PATIENT_DATABASE is not set: give it as postgres://user@host:5432/postgres');
    process.exit(2);
  }
  const first = new Client(database);
  await first.connect();
  await first.query(TABLES);
  const pool = new Pool(database, CONNECTIONS);
  await pool.fill();
  const server = http.createServer((request, response) => answer(pool, cured, response));
  server.keepAliveTimeout = 60_000;
  server.listen({ host, port, backlog: 1024 }, () => {
    const { address, port: taken } = server.address();
    console.log(`ready ${address}:${taken}`);
  });
}

main(process.argv.slice(2));
