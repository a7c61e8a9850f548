// thwarts says which members of a rowing club sit on which thwarts, in all boats that go out on a
// day. A request names the day, or takes one by chance. Seating notes in a member that he is
// taken, so each request works on a copy of its own of the club's register. It clones all of it,
// with the logbook of each member, and needs a small part. That keeps the only thread of Node
// busy, and all other requests wait.
//
// Cured, a request copies the few fields that it needs, of the members who can come on the day.
'use strict';
const http = require('node:http');
const { parseArgs } = require('node:util');

const MEMBERS = 200;
const BOATS = 12;
const DAYS = 7;
const OUTINGS = 30;
const SWAPS = 1000;

const { values: flags } = parseArgs({
  options: {
    address: { type: 'string', default: '127.0.0.1:18800' },
    cured: { type: 'boolean', default: false },
  },
});

/** register is all that the club knows of its boats and members. */
function register() {
  const boats = Array.from({ length: BOATS }, (_, n) => ({
    name: `boat ${n + 1}`,
    seats: [4, 6, 8][n % 3],
  }));
  const members = Array.from({ length: MEMBERS }, (_, n) => ({
    name: `member ${n + 1}`,
    kilograms: 55 + ((n * 37) % 45),
    skill: (n * 53) % 100,
    side: ['port', 'starboard', 'both'][n % 3],
    days: Array.from({ length: DAYS }, (_, day) => (n + day) % 4 !== 0),
    logbook: Array.from({ length: OUTINGS }, (_, k) => outing(n, k)),
    taken: false,
  }));
  return { boats, members };
}

/** outing is what the logbook says of one that a member took part in. */
function outing(member, number) {
  const km = 4 + ((member + number) % 9);
  return { boat: (member + number) % BOATS, week: number, km, minutes: 7 * km };
}

/** cloneDeep is a copy of a value and of all that is in it, which a request may change. */
function cloneDeep(value) {
  if (Array.isArray(value)) return value.map(cloneDeep);
  if (value === null || typeof value !== 'object') return value;
  const copy = {};
  for (const key of Object.keys(value)) copy[key] = cloneDeep(value[key]);
  return copy;
}

/** copyFree is a register that a request may change, with what seating needs on a day. */
function copyFree(club, day) {
  const members = club.members
    .filter((member) => member.days[day])
    .map(({ name, kilograms, skill, side, days, taken }) => {
      return { name, kilograms, skill, side, days, taken };
    });
  return { boats: club.boats, members };
}

/** crew takes members for a boat, the first that fit, half of them for each side. */
function crew(boat, members) {
  const sides = { port: [], starboard: [] };
  for (const [side, seats] of Object.entries(sides)) {
    for (const member of members) {
      if (seats.length === boat.seats / 2) break;
      if (member.taken || (member.side !== side && member.side !== 'both')) continue;
      member.taken = true;
      seats.push(member);
    }
  }
  return sides;
}

/** lean is how far a boat leans to a side, and how much deeper its bow or its stern lies. */
function lean({ port, starboard }) {
  let roll = 0;
  let trim = 0;
  for (let row = 0; row < port.length; row++) {
    const lever = (port.length - 1) / 2 - row;
    roll += port[row].kilograms - starboard[row].kilograms;
    trim += lever * (port[row].kilograms + starboard[row].kilograms);
  }
  return Math.abs(roll) + Math.abs(trim) / 2;
}

/** balance has members change their seats where the boat leans less by it. */
function balance(sides) {
  let best = lean(sides);
  for (let n = 0; n < SWAPS; n++) {
    const from = n % 2 ? sides.port : sides.starboard;
    const to = n % 3 ? sides.port : sides.starboard;
    const i = n % from.length;
    const j = (n * 7 + (n >> 3)) % to.length;
    swap(from, i, to, j);
    const now = lean(sides);
    if (now < best) best = now;
    else swap(from, i, to, j);
  }
  return best;
}

function swap(from, i, to, j) {
  const member = from[i];
  from[i] = to[j];
  to[j] = member;
}

/** seat is who sits where in each boat on a day. */
function seat({ boats, members }, day) {
  const best = members.filter((m) => m.days[day]).sort((a, b) => b.skill - a.skill);
  return boats.map((boat) => {
    const sides = crew(boat, best);
    const leans = balance(sides);
    const thwarts = sides.port.map((member, row) => [member.name, sides.starboard[row].name]);
    return { boat: boat.name, leans, thwarts };
  });
}

/** answer serves a request. */
function answer(club, request, response) {
  const asked = new URL(request.url, 'http://club').searchParams.get('day');
  const day = Number(asked ?? Math.floor(Math.random() * DAYS));
  if (!Number.isInteger(day) || day < 0 || day >= DAYS) {
    response.writeHead(400).end(`day is a number from 0 to ${DAYS - 1}\n`);
    return;
  }
  const own = flags.cured ? copyFree(club, day) : cloneDeep(club);
  response.setHeader('Content-Type', 'application/json');
  response.end(JSON.stringify({ day, boats: seat(own, day) }));
}

function main() {
  const club = register();
  const server = http.createServer((request, response) => answer(club, request, response));
  const [host, port] = flags.address.split(':');
  server.listen({ host, port, backlog: 4096 }, () => {
    console.log(`ready ${host}:${server.address().port}`);
  });
  server.on('error', (error) => {
    console.error(error.message);
    process.exit(2);
  });
  process.on('SIGTERM', () => process.exit(0));
}

main();
