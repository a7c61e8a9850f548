// quoins quotes what it costs to stow a consignment of casks, each held by wedges. Prices come
// from a cache with the tariffs of some ports. Surcharges are put into a tariff before it is used,
// so the cache hands out a copy, and makes it by way of JSON: the whole tariff is written out and
// parsed again for each request, though a consignment needs only a few of its articles.
//
// Cured, the cache copies only the articles of the consignment, field by field.
'use strict';
const cluster = require('node:cluster');
const crypto = require('node:crypto');
const http = require('node:http');
const os = require('node:os');
const { parseArgs } = require('node:util');

const PORTS = ['Bergen', 'Cork', 'Lisbon', 'Riga'];
const ARTICLES = 220;
const CARGOES = ['wine', 'rum', 'tar', 'salt', 'herring', 'powder'];
const LAYERS = 40; // of casks, at most
const SEALS = 80; // rounds of the seal of a quote

/** makeTariff is what a port charges, by the number of the article. */
function makeTariff(port) {
  const articles = {};
  for (let n = 0; n < ARTICLES; n++) {
    articles[n] = {
      article: n,
      name: `cask ${n} of ${CARGOES[n % CARGOES.length]}`,
      cargo: CARGOES[n % CARGOES.length],
      litres: 120 + ((n * 37) % 400),
      cents: 900 + ((n * 53 + port.length * 71) % 700),
      steps: [10, 50, 200].map((from) => ({ from, rebate: from / 1000 })),
      surcharges: [],
    };
  }
  return articles;
}

/**
 * Tariffs is a cache. It hands out copies, which callers may change, and promises them, as caches
 * do that ask elsewhere for what they do not have.
 */
class Tariffs {
  #ports = new Map(PORTS.map((port) => [port, makeTariff(port)]));

  /** copyTariff copies all that a port charges. */
  async copyTariff(port) {
    return JSON.parse(JSON.stringify(this.#ports.get(port)));
  }

  /** copyArticles copies what a port charges for a consignment. */
  async copyArticles(port, consignment) {
    const [tariff, copy] = [this.#ports.get(port), {}];
    for (const { article } of consignment) {
      const { steps, ...fields } = tariff[article];
      copy[article] = { ...fields, steps: steps.map((step) => ({ ...step })), surcharges: [] };
    }
    return copy;
  }
}

/** makeConsignment is what a merchant might send: a dozen articles, some casks of each. */
function makeConsignment() {
  return Array.from({ length: 12 }, () => ({
    article: crypto.randomInt(ARTICLES),
    casks: 1 + crypto.randomInt(250),
  }));
}

/** addSurcharges changes the articles that cost more today. */
function addSurcharges(articles, consignment) {
  const total = consignment.reduce((sum, { casks }) => sum + casks, 0);
  for (const { article } of consignment) {
    const entry = articles[article];
    entry.surcharges = [];
    if (entry.cargo === 'powder') entry.surcharges.push({ why: 'guard', cents: 250 });
    if (total > 1000) entry.surcharges.push({ why: 'night shift', cents: 120 });
  }
}

/** countQuoins is how many wedges hold some casks: four for one in the lowest layer, else two. */
function countQuoins(casks, litres) {
  let [left, quoins] = [casks, 0];
  for (let layer = 0; layer < LAYERS && left > 0; layer++) {
    const width = Math.max(1, Math.round(9000 / litres) - layer);
    const stowed = Math.min(left, width);
    quoins += stowed * (layer === 0 ? 4 : 2);
    left -= stowed;
  }
  return quoins + left * 4; // what is left lies on deck
}

/** priceLine is a line of the quote, and what it costs in cents. */
function priceLine({ name, litres, cents, steps, surcharges }, casks) {
  const rebate = steps.filter(({ from }) => casks >= from).at(-1)?.rebate ?? 0;
  const extra = surcharges.reduce((sum, surcharge) => sum + surcharge.cents, 0);
  const quoins = countQuoins(casks, litres);
  const price = Math.round(casks * (cents * (1 - rebate) + extra) + quoins * 15);
  const why = surcharges.map((surcharge) => surcharge.why).join(', ');
  const text = `${casks} x ${name}, ${quoins} quoins: ${(price / 100).toFixed(2)} ${why}`;
  return { text: text.trimEnd(), price };
}

/** seal lets the port recognize a quote of its own. */
function seal(text) {
  let digest = text;
  for (let i = 0; i < SEALS; i++) {
    digest = crypto.createHash('sha256').update(digest).digest();
  }
  return digest.toString('hex');
}

/** quote is the answer to a request: what a consignment costs in a port. */
async function quote(tariffs, cured) {
  const port = PORTS[crypto.randomInt(PORTS.length)];
  const consignment = makeConsignment();
  const articles = cured
    ? await tariffs.copyArticles(port, consignment)
    : await tariffs.copyTariff(port);
  addSurcharges(articles, consignment);
  const lines = consignment.map(({ article, casks }) => priceLine(articles[article], casks));
  const total = lines.reduce((sum, { price }) => sum + price, 0);
  const list = lines.map((line) => line.text).join('\n');
  const text = `in ${port}\n${list}\ntotal ${(total / 100).toFixed(2)}\n`;
  return `${text}seal ${seal(text)}\n`;
}

/** serve answers in one process of several. */
function serve(host, port, cured) {
  const tariffs = new Tariffs();
  const server = http.createServer(async (request, response) => {
    const body = await quote(tariffs, cured);
    response.setHeader('Content-Type', 'text/plain; charset=utf-8');
    response.setHeader('Content-Length', Buffer.byteLength(body));
    response.end(body);
  });
  server.keepAliveTimeout = 60_000;
  server.listen({ host, port, backlog: 1024 });
}

/** lead starts a process for each processor, and ends with any of them. */
function lead() {
  const processes = os.availableParallelism();
  let listening = 0;
  cluster.on('exit', () => process.exit(1));
  cluster.on('listening', (_, { address, port }) => {
    listening++;
    if (listening === processes) console.log(`ready ${address}:${port}`);
  });
  for (let n = 0; n < processes; n++) cluster.fork();
}

function main() {
  const { values } = parseArgs({
    options: {
      address: { type: 'string', default: '127.0.0.1:18800' },
      cured: { type: 'boolean', default: false },
      debug: { type: 'boolean', default: false }, // there is nothing to show
    },
  });
  process.on('SIGTERM', () => process.exit(0));
  if (cluster.isPrimary) return lead();
  const [host, port] = values.address.split(':');
  return serve(host, Number(port), values.cured);
}

main();
