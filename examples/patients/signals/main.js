// signals tells which pennants a station has to show. Where there is a camera, it counts the visits
// of others while the page is made. The method that counts is bound once more to be removed from
// the listeners, and that is another function than was added: the listener and its page are kept
// for ever, and it is called for each visit.
//
// Cured, the method is bound once.
'use strict';
const cluster = require('node:cluster');
const crypto = require('node:crypto');
const { EventEmitter } = require('node:events');
const http = require('node:http');
const os = require('node:os');
const { setImmediate: turn } = require('node:timers/promises');
const { parseArgs } = require('node:util');

const { values: flags } = parseArgs({
  options: {
    address: { type: 'string', default: '127.0.0.1:18800' },
    cured: { type: 'boolean', default: false },
  },
});
const [host, port] = flags.address.split(':');

const STATIONS = 80;
const CAMERAS = 5; // one station in so many has one
const HOURS = 400;

/** visits emits "visit" with a station. */
const visits = new EventEmitter();
visits.setMaxListeners(0); // as Node warned of a leak

/** wind is how many knots are expected. */
function wind(station, hour) {
  const gusts = Math.cos((hour * station) / 23);
  return Math.max(0, 16 + Math.sin((hour + station) / 7) * 14 + gusts * 11);
}

/** pennants are what is shown for a wind. */
const pennants = (knots) => (knots < 22 ? 'none' : knots < 34 ? 'one red' : 'two red');

/** Page is what a station has to show, hour by hour. */
class Page {
  others = 0;
  hours = [];

  constructor(station) {
    this.station = station;
    this.camera = station % CAMERAS === 0;
    if (flags.cured) this.visited = this.visited.bind(this);
    for (let hour = 0; hour < HOURS; hour++) {
      const knots = wind(station, hour);
      this.hours.push({ hour, knots, pennants: pennants(knots) });
    }
  }

  /** visited counts a visit. */
  visited(station) {
    if (station === this.station) this.others++;
  }

  listen() {
    if (this.camera) visits.on('visit', flags.cured ? this.visited : this.visited.bind(this));
  }

  stop() {
    if (this.camera) visits.off('visit', flags.cured ? this.visited : this.visited.bind(this));
  }

  text() {
    const head = `Station ${this.station}, ${this.others} others look at it`;
    const lines = this.hours.map((h) => `${h.hour} h: ${h.knots.toFixed(1)} kn, ${h.pennants}`);
    this.sent = `${[head, ...lines].join('\n')}\n`;
    return this.sent;
  }
}

async function serve(request, response) {
  const page = new Page(crypto.randomInt(STATIONS));
  visits.emit('visit', page.station);
  page.listen();
  try {
    await turn(); // to others, as pages take their time
    const text = page.text();
    response.writeHead(200, {
      'content-type': 'text/plain',
      etag: `"${crypto.createHash('sha1').update(text).digest('base64url')}"`,
      'content-length': Buffer.byteLength(text),
    });
    response.end(text);
  } finally {
    page.stop();
  }
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
