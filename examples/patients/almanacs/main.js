// almanacs shows a page of a nautical almanac, which is put together from eighty small partials.
// They are kept only where NODE_ENV is production, and nobody has set it, so each request opens and
// reads all of its partials anew.
//
// Cured, NODE_ENV is production, so a partial is read once.
'use strict';
const cluster = require('node:cluster');
const crypto = require('node:crypto');
const fs = require('node:fs');
const http = require('node:http');
const os = require('node:os');
const path = require('node:path');
const { parseArgs } = require('node:util');

const { values: flags } = parseArgs({
  options: {
    address: { type: 'string', default: '127.0.0.1:18800' },
    cured: { type: 'boolean', default: false },
  },
});
const [host, port] = flags.address.split(':');

const PARTIALS = 80;

/** Views are the partials of a folder. */
class Views {
  constructor(folder, keep) {
    this.folder = folder;
    this.keep = keep;
    this.kept = new Map();
  }

  partial(name) {
    let text = this.kept.get(name);
    if (text === undefined) {
      text = fs.readFileSync(path.join(this.folder, 'partials', `${name}.html`), 'utf8');
      if (this.keep) this.kept.set(name, text);
    }
    return text;
  }

  /** render puts values in the places of a partial. */
  render(name, values) {
    return this.partial(name).replace(/\{(\w+)\}/g, (_, key) => values[key] ?? '');
  }
}

/** write makes the partials: one for each star that sailors steer by. */
function write(folder) {
  fs.mkdirSync(path.join(folder, 'partials'));
  for (let i = 0; i < PARTIALS; i++) {
    const row = `<tr class="star"><th>Star &amp; mark ${i}<td>{hour} h<td>{height}<td>{azimuth}\n`;
    fs.writeFileSync(path.join(folder, 'partials', `star${i}.html`), row);
  }
}

/** page is where the stars stand at an hour of a day. */
function page(views, day, hour) {
  let rows = '';
  for (let i = 0; i < PARTIALS; i++) {
    const turn = ((day * 0.9856 + hour * 15.041 + i * 37) % 360) * (Math.PI / 180);
    const height = Math.asin(0.62 * Math.sin(i) + 0.78 * Math.cos(i) * Math.cos(turn));
    const azimuth = Math.atan2(Math.sin(turn), Math.cos(turn) * 0.78 - Math.tan(i % 1.5) * 0.62);
    rows += views.render(`star${i}`, { hour, height: height.toFixed(3), azimuth: azimuth.toFixed(3) });
  }
  return `<!doctype html><title>Day ${day}</title><table>\n${rows}</table>\n`;
}

function serve(views, response) {
  let body;
  try {
    body = page(views, crypto.randomInt(365), crypto.randomInt(24));
  } catch (error) {
    response.writeHead(500, { 'content-type': 'text/plain' });
    response.end(`${error.message}\n`);
    return;
  }
  response.writeHead(200, {
    'content-type': 'text/html; charset=utf-8',
    etag: `"${crypto.createHash('sha1').update(body).digest('base64url')}"`,
    'content-length': Buffer.byteLength(body),
  });
  response.end(body);
}

if (cluster.isPrimary) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'patient-almanacs-'));
  write(folder);
  const env = { ALMANAC: folder, NODE_ENV: flags.cured ? 'production' : '' };
  let missing = os.availableParallelism();
  for (let i = missing; i > 0; i--) cluster.fork(env);
  cluster.on('listening', (_, at) => {
    if (--missing === 0) console.log(`ready ${at.address}:${at.port}`);
  });
  process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));
} else {
  const views = new Views(process.env.ALMANAC, process.env.NODE_ENV === 'production');
  const server = http.createServer((_, response) => serve(views, response));
  server.keepAliveTimeout = 120_000;
  server.listen(Number(port), host);
  process.on('disconnect', () => process.exit(0)); // the primary is gone
}
process.on('SIGTERM', () => process.exit(0));
