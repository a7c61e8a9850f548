// Takes the orders of a sail loft: it cuts a staysail to the measure of the customer's boat, gives
// the order a number, asks the warehouse for the cloth, and writes order and panels into
// PostgreSQL, all in one transaction. The books want order numbers in a row, so the next one is
// kept in a row of the table "books", and each order updates that row first. From then on until it
// commits, and that is also while it asks the warehouse, all other orders wait for the lock on the
// row.
//
// Cured, the number comes from a sequence, which holds nothing until the end of the transaction.
'use strict';
const http = require('node:http');
const { parseArgs } = require('node:util');
const { Pool } = require('../postgres/postgres.js');

/** CONNECTIONS to PostgreSQL: a request uses one from its first statement to its last. */
const CONNECTIONS = 80;

/** CLOTH is a metre wide before the seams. */
const CLOTH = 0.98;

const TABLES = `DROP TABLE IF EXISTS panels, orders, books;
DROP SEQUENCE IF EXISTS order_numbers;
CREATE TABLE books (loft text PRIMARY KEY, last_order bigint NOT NULL);
INSERT INTO books VALUES ('main', 1000);
CREATE SEQUENCE order_numbers START 1001;
CREATE TABLE orders (number bigint PRIMARY KEY, luff real, foot real, price int, stock text);
CREATE TABLE panels (number bigint, panel int, length real, PRIMARY KEY (number, panel))`;

const NEXT_IN_BOOKS =
  "UPDATE books SET last_order = last_order + 1 WHERE loft = 'main' RETURNING last_order";
const NEXT_IN_SEQUENCE = "SELECT nextval('order_numbers')";

/** Warehouse is the service that knows how much cloth there is. */
class Warehouse {
  #agent = new http.Agent({ keepAlive: true, maxFreeSockets: CONNECTIONS });

  constructor(address) {
    [this.host, this.port] = address.split(':');
  }

  stock() {
    const { host, port } = this;
    return new Promise((resolve, reject) => {
      const request = http.get({ host, port, path: '/', agent: this.#agent }, (answer) => {
        let text = '';
        answer.setEncoding('utf8');
        answer.on('data', (part) => (text += part));
        answer.on('error', reject);
        answer.on('end', () => {
          if (answer.statusCode === 200) resolve(text.trim());
          else reject(new Error(`the warehouse answered ${answer.statusCode}`));
        });
      });
      request.on('error', reject);
    });
  }
}

/** measure is what a customer sends: the sail's edges in metres. */
function measure() {
  return { luff: 6 + Math.random() * 5, foot: 2 + Math.random() * 2 };
}

/** cut lays panels across the sail from its foot to its head, and gives their lengths. */
function cut({ luff, foot }) {
  const panels = [];
  for (let height = 0; height < luff; height += CLOTH) {
    const chord = foot * (1 - height / luff);
    const round = 0.04 * foot * Math.sin((Math.PI * height) / luff);
    panels.push(Math.hypot(chord + round, 0.1 * chord));
  }
  return panels;
}

/** price is in cents, for cloth, seams and the three corners. */
function price(panels) {
  const cloth = panels.reduce((sum, length) => sum + length * CLOTH, 0);
  const seams = panels.slice(1).reduce((sum, length) => sum + length, 0);
  return Math.round(cloth * 4200 + seams * 1150 + 3 * 3900);
}

/** Loft takes orders; next is the statement that gives the number of one. */
class Loft {
  constructor(pool, warehouse, next) {
    Object.assign(this, { pool, warehouse, next });
  }

  /** order writes down an order, and returns what the customer is told. */
  order(sail) {
    const panels = cut(sail);
    const cost = price(panels);
    return this.pool.transaction(async (client) => {
      const [[number]] = await client.query(this.next);
      const stock = await this.warehouse.stock();
      const rows = panels.map((length, i) => `(${number}, ${i + 1}, ${length})`);
      await client.query(
        `INSERT INTO orders VALUES (${number}, ${sail.luff}, ${sail.foot}, ${cost}, '${stock}');
        INSERT INTO panels VALUES ${rows.join()}`,
      );
      return receipt(number, panels, cost, stock);
    });
  }
}

function receipt(number, panels, cost, stock) {
  const lines = panels.map((length, i) => `panel ${i + 1}: ${length.toFixed(2)} m`);
  const total = (cost / 100).toFixed(2);
  return `order ${number}, cloth: ${stock}\n${lines.join('\n')}\ntotal ${total}\n`;
}

function setting(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set`);
  return value;
}

async function main() {
  const { values: flags } = parseArgs({
    options: {
      address: { type: 'string', default: '127.0.0.1:18800' },
      debug: { type: 'string' },
      cured: { type: 'boolean', default: false },
    },
  });
  const pool = new Pool(setting('PATIENT_DATABASE'), CONNECTIONS);
  const warehouse = new Warehouse(setting('PATIENT_SERVICE'));
  await pool.fill();
  await pool.query(TABLES);
  const loft = new Loft(pool, warehouse, flags.cured ? NEXT_IN_SEQUENCE : NEXT_IN_BOOKS);

  const server = http.createServer(async (request, response) => {
    try {
      const text = await loft.order(measure());
      response.writeHead(200, { 'Content-Type': 'text/plain' }).end(text);
    } catch (error) {
      response.writeHead(503).end(`${error.message}\n`);
    }
  });
  server.keepAliveTimeout = 60_000;
  const [host, port] = flags.address.split(':');
  server.listen({ host, port: Number(port), backlog: 1024 }, () => {
    console.log(`ready ${host}:${server.address().port}`);
  });
  process.on('SIGTERM', () => process.exit(0));
}

main().catch((error) => {
  console.error(error.message);
  process.exit(2);
});
