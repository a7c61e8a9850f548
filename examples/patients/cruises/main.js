// cruises sends the day's programme to the cabins of a ship. The link to the ship is expensive, so
// each answer is compressed with Brotli, by a call that names no quality: Node's is then 11, which is
// meant for files that are compressed once and sent for years. It takes most of the event loop's
// time; perf is allowed, and Node writes its perf map.
//
// Cured, the quality is 4.
'use strict';
const cluster = require('node:cluster');
const crypto = require('node:crypto');
const http = require('node:http');
const os = require('node:os');
const zlib = require('node:zlib');
const { parseArgs } = require('node:util');

const { values: flags } = parseArgs({
  options: {
    address: { type: 'string', default: '127.0.0.1:18800' },
    cured: { type: 'boolean', default: false },
  },
});
const [host, port] = flags.address.split(':');

const CABINS = 1200;
const SHOWN = 24; // events of a programme
const EVENTS = 900; // of which they are chosen
const DECKS = ['Promenade', 'Lido', 'Sun', 'Boat', 'Main'];
const KINDS = ['Lecture', 'Concert', 'Dance class', 'Whist drive', 'Excursion', 'Tasting'];

const events = Array.from({ length: EVENTS }, (_, n) => ({
  title: `${KINDS[n % KINDS.length]} no. ${n}`,
  deck: DECKS[(n * 7) % DECKS.length],
  minute: 480 + ((n * 37) % 900),
  kind: n % KINDS.length,
  seats: 12 + ((n * 53) % 180),
}));

/** tastes says how much a cabin likes each kind of event. */
function tastes(cabin) {
  const seal = crypto.createHash('sha256').update(`cabin ${cabin}`).digest();
  return KINDS.map((_, kind) => seal[kind]);
}

/** programme has the events that a cabin likes best, in the order of the day. */
function programme(cabin) {
  const likes = tastes(cabin);
  return events
    .map((e, n) => ({ ...e, worth: likes[e.kind] + ((n * cabin) % 97) + (e.seats % 11) }))
    .sort((a, b) => b.worth - a.worth || a.minute - b.minute)
    .slice(0, SHOWN)
    .sort((a, b) => a.minute - b.minute);
}

/** clock is a time of day. */
function clock(minute) {
  return `${Math.floor(minute / 60)}:${String(minute % 60).padStart(2, '0')}`;
}

/** page is a programme, as a cabin's screen shows it. */
function page(cabin) {
  const rows = programme(cabin).map((e) =>
    `<tr><td>${clock(e.minute)}</td><td>${e.title}</td><td>${e.deck} Deck</td>`
    + `<td><a href="/book/${cabin}/${e.minute}">${e.seats} seats</a></td></tr>\n`);
  return `<!doctype html><title>Cabin ${cabin}</title><table>\n${rows.join('')}</table>\n`;
}

const options = flags.cured ? { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 4 } } : {};

/** packPage makes a page smaller for the link. */
function packPage(text) {
  return zlib.brotliCompressSync(text, options);
}

function serve(request, response) {
  const body = packPage(page(crypto.randomInt(CABINS)));
  response.writeHead(200, {
    'content-type': 'text/html; charset=utf-8',
    'content-encoding': 'br',
    'content-length': body.length,
  });
  response.end(body);
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
