// PostgreSQL as patients in Node.js ask it, with its simple queries and transactions, and without
// passwords. Elsewhere, use pg.
'use strict';
const net = require('node:net');

/** Client is one connection to PostgreSQL, and has one query at a time. */
class Client {
  #rest = Buffer.alloc(0);
  #rows = [];
  #failed = null;
  #waiting = null;

  /** url is such as postgres://patient@127.0.0.1:5432/postgres. */
  constructor(url) {
    const { hostname, port, username, pathname } = new URL(url);
    this.to = { host: hostname, port, noDelay: true };
    this.hello = `\0\x03\0\0user\0${username}\0database\0${pathname.slice(1)}\0\0`;
  }

  connect() {
    this.socket = net.connect(this.to);
    this.socket.on('data', (data) => this.#read(data));
    this.socket.on('error', (error) => this.#settle(error));
    this.socket.on('close', () => this.#settle(new Error('PostgreSQL closed the connection')));
    return this.#send('', this.hello);
  }

  /** query returns the rows, whose values are text. */
  query(sql) {
    return this.#send('Q', `${sql}\0`);
  }

  end() {
    this.socket.end(Buffer.from('X\0\0\0\x04', 'latin1'));
  }

  #send(kind, text) {
    const length = Buffer.alloc(4);
    length.writeInt32BE(Buffer.byteLength(text) + 4);
    this.socket.write(Buffer.concat([Buffer.from(kind), length, Buffer.from(text)]));
    return new Promise((resolve, reject) => (this.#waiting = { resolve, reject }));
  }

  #settle(error, rows) {
    const waiting = this.#waiting;
    this.#waiting = null;
    if (error) waiting?.reject(error);
    else waiting?.resolve(rows);
  }

  #read(data) {
    this.#rest = this.#rest.length > 0 ? Buffer.concat([this.#rest, data]) : data;
    while (this.#rest.length > 4) {
      const end = 1 + this.#rest.readInt32BE(1);
      if (this.#rest.length < end) return;
      const kind = String.fromCharCode(this.#rest[0]);
      if (kind === 'D') this.#rows.push(values(this.#rest.subarray(5, end)));
      if (kind === 'E') this.#failed = new Error(this.#rest.toString('utf8', 5, end));
      this.#rest = this.#rest.subarray(end);
      if (kind === 'Z') {
        this.#settle(this.#failed, this.#rows); // it is ready for the next query
        this.#rows = [];
        this.#failed = null;
      }
    }
    if (this.#failed) this.#settle(this.#failed); // refused: nothing else comes
  }
}

/** values are those of a row. */
function values(row) {
  const found = [];
  for (let at = 2; at < row.length; ) {
    const end = at + 4 + row.readInt32BE(at);
    found.push(row.toString('utf8', at + 4, end));
    at = end;
  }
  return found;
}

/**
 * Pool has clients, and whoever finds none that is free waits for one. Without PostgreSQL there is
 * nothing to do, so the process ends with one of them.
 */
class Pool {
  #free = [];
  #waiting = [];

  constructor(url, size) {
    Object.assign(this, { url, size });
  }

  async fill() {
    while (this.#free.length < this.size) {
      const client = new Client(this.url);
      await client.connect();
      client.socket.on('close', () => {
        console.error('PostgreSQL closed a connection of the pool');
        process.exit(1);
      });
      this.#free.push(client);
    }
  }

  query(sql) {
    return this.#lend((client) => client.query(sql));
  }

  /** transaction commits what steps does with the client that it is given. */
  transaction(steps) {
    return this.#lend(async (client) => {
      try {
        await client.query('BEGIN');
        const result = await steps(client);
        await client.query('COMMIT');
        return result;
      } catch (error) {
        await client.query('ROLLBACK');
        throw error;
      }
    });
  }

  /** lend has a client that nobody else uses meanwhile do something. */
  async #lend(act) {
    const client = this.#free.pop() ?? (await new Promise((go) => this.#waiting.push(go)));
    try {
      return await act(client);
    } finally {
      const next = this.#waiting.shift();
      if (next) next(client);
      else this.#free.push(client);
    }
  }
}

module.exports = { Client, Pool, values };
