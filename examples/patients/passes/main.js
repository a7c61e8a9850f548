// passes writes boarding passes. So that its event loop is free, they are drawn in a worker thread, and there is
// one: it draws one pass at a time, on one processor.
//
// Cured, there is a worker thread for each processor.
'use strict';
const crypto = require('node:crypto');
const http = require('node:http');
const os = require('node:os');
const { parseArgs } = require('node:util');
const { Worker, isMainThread, parentPort } = require('node:worker_threads');

const SIZE = 57;

const MASKS = [
  () => false,
  (x, y) => (x + y) % 2 === 0,
  (x, y) => y % 2 === 0,
  (x) => x % 3 === 0,
  (x, y) => (x + y) % 3 === 0,
  (x, y) => (Math.floor(y / 2) + Math.floor(x / 3)) % 2 === 0,
  (x, y) => ((x * y) % 2) + ((x * y) % 3) === 0,
  (x, y) => (((x + y) % 2) + ((x * y) % 3)) % 2 === 0,
];

/** penalty is how hard a pattern is to read: it counts long runs in rows and columns. */
function penalty(rows) {
  let sum = 0;
  for (const lines of [rows, rows[0].map((_, x) => rows.map((row) => row[x]))]) {
    for (const line of lines) {
      let run = 1;
      for (let i = 1; i < line.length; i++) {
        run = line[i] === line[i - 1] ? run + 1 : 1;
        if (run >= 4) sum += run - 2;
      }
    }
  }
  return sum;
}

/** draw makes a pass as SVG: a pattern of dots for its text, under the mask that is the easiest to read. */
function draw(text) {
  let seed = crypto.createHash('sha256').update(text).digest();
  const rows = [];
  for (let y = 0; y < SIZE; y++) {
    rows.push(Array.from({ length: SIZE }, (_, x) => ((seed[(x * 5 + y) % 32] >> (x + y) % 8) & 1) === 1));
    seed = crypto.createHash('sha256').update(seed).digest();
  }
  const masked = MASKS.map((mask) => rows.map((row, y) => row.map((dot, x) => dot !== mask(x, y))));
  const best = masked.map((pattern) => [penalty(pattern), pattern]).sort((a, b) => a[0] - b[0])[0][1];
  const lines = best.map((row, y) => `M0,${y}${row.map((dot) => (dot ? 'h1' : 'm1,0')).join('')}`);
  return `<svg xmlns="http://www.w3.org/2000/svg"><title>${text}</title><path d="${lines.join('')}"/></svg>\n`;
}

/** Printer gives texts to threads, the one with the fewest first. */
class Printer {
  #threads = [];
  #waiting = new Map();
  #last = 0;

  constructor(threads) {
    for (let i = 0; i < threads; i++) {
      const thread = { worker: new Worker(__filename), busy: 0 };
      thread.worker.on('message', ({ number, pass }) => {
        thread.busy--;
        this.#waiting.get(number)(pass);
        this.#waiting.delete(number);
      });
      this.#threads.push(thread);
    }
  }

  print(text) {
    const thread = this.#threads.reduce((a, b) => (b.busy < a.busy ? b : a));
    const number = ++this.#last;
    thread.busy++;
    thread.worker.postMessage({ number, text });
    return new Promise((resolve) => this.#waiting.set(number, resolve));
  }
}

if (isMainThread) {
  const { values: flags } = parseArgs({
    options: {
      address: { type: 'string', default: '127.0.0.1:18800' },
      cured: { type: 'boolean', default: false },
    },
  });
  const [host, port] = flags.address.split(':');
  const printer = new Printer(flags.cured ? os.availableParallelism() : 1);
  const server = http.createServer(async (request, response) => {
    const seat = `${1 + crypto.randomInt(40)}${'ABCDEF'[crypto.randomInt(6)]}`;
    const pass = await printer.print(`Ferry ${crypto.randomInt(900)}, seat ${seat}`);
    response.writeHead(200, { 'content-type': 'image/svg+xml', 'content-length': Buffer.byteLength(pass) });
    response.end(pass);
  });
  server.keepAliveTimeout = 120_000;
  server.listen(Number(port), host, () => console.log(`ready ${host}:${server.address().port}`));
  process.on('SIGTERM', () => process.exit(0));
} else {
  parentPort.on('message', ({ number, text }) => parentPort.postMessage({ number, pass: draw(text) }));
}
