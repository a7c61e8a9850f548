// PostgreSQL as chartrooms asks it, with its simple queries. Elsewhere, use pg.
'use strict';
const net = require('node:net');
const { values } = require('../postgres/postgres.js');

/** Connection is one to PostgreSQL, and has one query at a time. */
class Connection {
  #rest = Buffer.alloc(0);
  #rows = [];

  /**
   * url is such as postgres://patient@127.0.0.1:5432/postgres, and asks for no password. done is
   * called when it is ready, and later whenever a query has its rows.
   */
  constructor(url, done) {
    const { hostname, port, username, pathname } = new URL(url);
    this.done = done;
    this.socket = net.connect({ host: hostname, port, noDelay: true });
    this.socket.on('data', (data) => this.#read(data));
    this.socket.on('error', () => process.exit(1)); // without PostgreSQL there is nothing to do
    this.socket.on('close', () => process.exit(1));
    this.#write('', `\0\x03\0\0user\0${username}\0database\0${pathname.slice(1)}\0\0`);
  }

  #write(kind, text) {
    const length = Buffer.alloc(4);
    length.writeInt32BE(Buffer.byteLength(text) + 4);
    this.socket.write(Buffer.concat([Buffer.from(kind), length, Buffer.from(text)]));
  }

  /** query returns the rows, whose values are text. */
  query(sql) {
    this.#write('Q', `${sql}\0`);
    return new Promise((resolve) => (this.done = resolve));
  }

  #read(data) {
    this.#rest = Buffer.concat([this.#rest, data]);
    while (this.#rest.length > 4) {
      const end = 1 + this.#rest.readInt32BE(1);
      if (this.#rest.length < end) return;
      const kind = String.fromCharCode(this.#rest[0]);
      if (kind === 'D') this.#rows.push(values(this.#rest.subarray(5, end)));
      if (kind === 'E') throw new Error(this.#rest.toString('utf8', 5, end)); // ends the process
      this.#rest = this.#rest.subarray(end);
      if (kind === 'Z') this.done(this.#rows.splice(0)); // it is ready for the next query
    }
  }
}

module.exports = { Connection };
