// lanterns is a control: it has no disease. It shows which lights a ship sees on its way, for which
// it asks the lighthouses which of them are lit. They are asked over connections that are kept, and
// the processors are the bottleneck.
'use strict';
const cluster = require('node:cluster');
const crypto = require('node:crypto');
const http = require('node:http');
const os = require('node:os');
const { parseArgs } = require('node:util');

const { values: flags } = parseArgs({
  options: {
    address: { type: 'string', default: '127.0.0.1:18800' },
    cured: { type: 'boolean', default: false }, // there is nothing to cure
  },
});
const [host, port] = flags.address.split(':');
const [lightHost, lightPort] = (process.env.PATIENT_SERVICE ?? '').split(':');
const agent = new http.Agent({ keepAlive: true, maxSockets: 512, maxFreeSockets: 512 });

const LIGHTS = Array.from({ length: 300 }, (_, i) => ({
  name: `Light & horn ${i}`, x: (i * 37) % 90, y: (i * 53) % 70, miles: 4 + (i % 19), colour: ['white', 'red', 'green'][i % 3],
}));

/** lit asks how many lights are lit. */
function lit(ship) {
  return new Promise((resolve, reject) => {
    const request = http.get({ host: lightHost, port: lightPort, path: `/lit?ship=${ship}`, agent }, (answer) => {
      const parts = [];
      answer.on('data', (part) => parts.push(part));
      answer.on('end', () => resolve(Number.parseInt(Buffer.concat(parts).toString(), 10)));
      answer.on('error', reject);
    });
    request.setTimeout(10_000, () => request.destroy(new Error('the lighthouses are late')));
    request.on('error', reject);
  });
}

/** course is the way of a ship, in steps of about a mile. */
function course(ship) {
  const places = [];
  for (let mile = 0; mile < 40; mile++) {
    const turn = Math.sin(ship + mile / 9);
    places.push({ x: (ship + mile * (1 + turn / 4)) % 90, y: (ship * 3 + mile * (1 - turn / 4)) % 70 });
  }
  return places;
}

/** seen are the lights that are seen from a place, the nearest first. */
function seen(place) {
  return LIGHTS.filter((l) => Math.abs(l.x - place.x) <= l.miles && Math.abs(l.y - place.y) <= l.miles)
    .map((l) => ({ name: l.name, colour: l.colour, far: Math.hypot(l.x - place.x, l.y - place.y) }))
    .sort((a, b) => a.far - b.far)
    .slice(0, 4);
}

/** table is the way and its lights, for people. */
function table(places) {
  const rows = places.map((place, mile) => {
    const lights = seen(place).map((l) => `${l.name.replace('&', '&amp;')} (${l.colour}, ${l.far.toFixed(1)})`);
    return `<tr><td>${mile}<td>${lights.join('<br>')}\n`;
  });
  return `<table>\n${rows.join('')}</table>\n`;
}

async function serve(request, response) {
  try {
    const ship = crypto.randomInt(900);
    const lights = await lit(ship);
    const body = `<!doctype html><title>${lights} are lit</title>${table(course(ship))}`;
    response.writeHead(200, {
      'content-type': 'text/html; charset=utf-8',
      etag: `"${crypto.createHash('sha256').update(body).digest('base64url')}"`,
      'content-length': Buffer.byteLength(body),
    });
    response.end(body);
  } catch (error) {
    response.writeHead(502, { 'content-type': 'text/plain' });
    response.end(`${error.message}\n`);
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
