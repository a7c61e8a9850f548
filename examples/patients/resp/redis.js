// Redis as patients in Node.js ask it: a connection that sends commands one after the other, and reads
// the answers. Elsewhere, use node-redis or ioredis.
'use strict';
const net = require('node:net');

/** Redis is one connection. Without Redis there is nothing to do, so the process ends with it. */
class Redis {
  #waiting = [];
  #lines = [];
  #rest = '';

  /** address is a host and a port, such as 127.0.0.1:6379. */
  constructor(address) {
    const [host, port] = address.split(':');
    this.socket = net.connect({ host, port, noDelay: true });
    this.socket.setEncoding('latin1');
    this.socket.on('data', (text) => this.#read(text));
    this.socket.on('error', () => process.exit(1));
    this.socket.on('close', () => process.exit(1));
  }

  #read(text) {
    const lines = (this.#rest + text).split('\r\n');
    this.#rest = lines.pop();
    this.#lines.push(...lines);
    while (this.#lines.length > 0) {
      const [answer, end] = this.#answer(0);
      if (end > this.#lines.length) return;
      const failed = this.#lines[0][0] === '-';
      this.#lines.splice(0, end);
      const { resolve, reject } = this.#waiting.shift();
      if (failed) reject(new Error(answer));
      else resolve(answer);
    }
  }

  /** #answer is the answer that begins with a line, and the line after it. */
  #answer(at) {
    const line = this.#lines[at] ?? '';
    if (line[0] === '$') return [this.#lines[at + 1], at + 2];
    if (line[0] !== '*') return [line.slice(1), at + 1];
    const list = [];
    let next = at + 1;
    for (let n = Number(line.slice(1)); n > 0; n--) {
      const [part, end] = this.#answer(next);
      list.push(part);
      next = end;
    }
    return [list, next];
  }

  /** ask sends a command, and promises its answer: a word, or a list of answers. */
  ask(...words) {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      const sizes = words.map((w) => `$${Buffer.byteLength(w)}\r\n${w}\r\n`);
      this.socket.write(`*${words.length}\r\n${sizes.join('')}`);
    });
  }
}

module.exports = { Redis };
