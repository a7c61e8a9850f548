// marlins keeps the scores of fishing tournaments. A request weighs in a marlin for an angler, and
// answers with the ten who lead the tournament and the chance that each of them has to win it.
// Redis has a set of each tournament's anglers, and a hash for each angler. To know who leads, it
// is asked to SORT the set by a field of the hashes: it looks up every angler and sorts them all,
// for each request, and all other commands wait for that.
//
// Cured, a tournament's anglers are a sorted set by points, which gives the leaders at once.
'use strict';
const crypto = require('node:crypto');
const http = require('node:http');

const { Redis } = require('../resp/redis.js');

const TOURNAMENTS = 6;
const ANGLERS = 1800; // of each tournament
const LEADERS = 10;
const SEASONS = 100; // that are played to estimate the chances

/** Sorted finds the leaders by sorting all anglers. */
class Sorted {
  constructor(redis) {
    this.redis = redis;
  }

  enter(tournament, angler) {
    return this.redis.ask('SADD', `anglers:${tournament}`, angler);
  }

  async score(angler, points) {
    await this.redis.ask('HINCRBY', `angler:${angler}`, 'points', points);
  }

  leaders(tournament) {
    return this.redis.ask('SORT', `anglers:${tournament}`, 'BY', 'angler:*->points',
      'LIMIT', '0', String(LEADERS), 'DESC');
  }
}

/** Ranked has Redis keep the anglers in the order of their points. */
class Ranked {
  constructor(redis) {
    this.redis = redis;
  }

  enter(tournament, angler) {
    return this.redis.ask('ZADD', `ranks:${tournament}`, '0', angler);
  }

  async score(angler, points) {
    const [tournament] = angler.split('-');
    await Promise.all([
      this.redis.ask('HINCRBY', `angler:${angler}`, 'points', points),
      this.redis.ask('ZINCRBY', `ranks:${tournament}`, points, angler),
    ]);
  }

  leaders(tournament) {
    return this.redis.ask('ZREVRANGE', `ranks:${tournament}`, '0', String(LEADERS - 1));
  }
}

/** fill enters all anglers, each with what was caught so far. */
async function fill(redis, board) {
  for (let tournament = 1; tournament <= TOURNAMENTS; tournament++) {
    const entries = [];
    for (let n = 1; n <= ANGLERS; n++) {
      const angler = `${tournament}-${n}`;
      entries.push(
        redis.ask('HSET', `angler:${angler}`,
          'name', `Angler ${n}`, 'boat', `Boat ${n % 150}`, 'points', '0'),
        board.enter(tournament, angler),
        board.score(angler, String(20_000 + (n * 7919) % 10_007)));
    }
    await Promise.all(entries);
  }
}

/** chances plays the rest of the tournament many times, and tells how often each leader won. */
function chances(leaders) {
  const wins = leaders.map(() => 0);
  for (let season = 0; season < SEASONS; season++) {
    const finals = leaders.map(({ points }) => points + catches());
    wins[finals.indexOf(Math.max(...finals))]++;
  }
  return wins.map((won) => won / SEASONS);
}

/** catches is what an angler may still land: a marlin bites about every fourth time. */
function catches() {
  let points = 0;
  for (let tide = 0; tide < 4; tide++) {
    if (Math.random() < 0.25) points += Math.round(150 * Math.exp(Math.random()));
  }
  return points;
}

/** chart draws the leaders' points as bars. */
function chart(leaders) {
  const most = leaders[0].points;
  const bars = leaders.map(({ name, points }, i) => {
    const width = (400 * points / most).toFixed(1);
    return `<rect x="0" y="${i * 20}" width="${width}" height="16"><title>${name}</title></rect>`;
  });
  return `<svg viewBox="0 0 400 ${20 * leaders.length}">${bars.join('\n')}</svg>`;
}

/** page shows the leaders, and is sealed so that a result can be proved later. */
function page(tournament, leaders) {
  const odds = chances(leaders);
  const rows = leaders.map(({ name, boat, points }, i) =>
    `<tr><td>${name}</td><td>${boat}</td><td>${points}</td><td>${odds[i].toFixed(2)}</td></tr>`);
  const body = `<h1>Tournament ${tournament}</h1>\n<table>\n${rows.join('\n')}\n</table>\n` +
    chart(leaders);
  const seal = crypto.createHash('sha256').update(body).digest('hex');
  return `${body}\n<p>${seal}</p>\n`;
}

/** weigh scores a marlin for an angler, and returns the page of the tournament. */
async function weigh(redis, board) {
  const tournament = crypto.randomInt(1, TOURNAMENTS + 1);
  const angler = `${tournament}-${crypto.randomInt(1, ANGLERS + 1)}`;
  await board.score(angler, String(crypto.randomInt(1, 5)));
  const first = await board.leaders(tournament);
  const leaders = await Promise.all(first.map(async (leader) => {
    const [name, boat, points] = await redis.ask('HMGET', `angler:${leader}`,
      'name', 'boat', 'points');
    return { name, boat, points: Number(points) };
  }));
  return page(tournament, leaders);
}

async function main(words) {
  const at = words.indexOf('--address');
  const [host, port] = (at < 0 ? '127.0.0.1:18800' : words[at + 1]).split(':');
  if (!process.env.PATIENT_REDIS) {
    console.error('PATIENT_REDIS is not set: give it as 127.0.0.1:6379');
    process.exit(2);
  }
  const redis = new Redis(process.env.PATIENT_REDIS);
  const board = words.includes('--cured') ? new Ranked(redis) : new Sorted(redis);
  await fill(redis, board);
  const server = http.createServer(async (request, response) => {
    try {
      const body = await weigh(redis, board);
      response.setHeader('Content-Type', 'text/html; charset=utf-8');
      response.end(body);
    } catch (err) {
      response.writeHead(503).end(`${err.message}\n`);
    }
  });
  server.keepAliveTimeout = 60_000;
  server.listen({ host, port: Number(port), backlog: 4096 }, () => {
    console.log(`ready ${host}:${server.address().port}`);
  });
  process.on('SIGTERM', () => process.exit(0));
}

main(process.argv.slice(2));
