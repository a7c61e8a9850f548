// What ships report in each watch, with the schema of it.
'use strict';

const BEARINGS = 8; // in a report
const RADIAN = Math.PI / 180;

const text = { type: 'string', minLength: 1, maxLength: 60 };
const degrees = { type: 'number', minimum: 0, maximum: 360 };
const position = {
  type: 'object',
  required: ['latitude', 'longitude'],
  properties: {
    latitude: { type: 'number', minimum: -90, maximum: 90 },
    longitude: { type: 'number', minimum: -180, maximum: 180 },
    fix: { type: 'string', enum: ['gps', 'radar', 'sextant', 'estimate'] },
  },
};
const compass = {
  type: 'object',
  required: ['maker', 'serial', 'adjusted'],
  properties: {
    maker: text,
    serial: { ...text, pattern: '^[A-Z]{2}-\\d{4}$' },
    adjusted: { ...text, pattern: '^\\d{4}-\\d\\d-\\d\\d$' },
    magnets: { type: 'integer', minimum: 0, maximum: 12 },
    lit: { type: 'boolean' },
  },
};
const bearing = {
  type: 'object',
  required: ['heading', 'seen', 'true'],
  properties: { heading: degrees, seen: degrees, true: degrees, mark: text },
};
const REPORT = {
  type: 'object',
  required: ['ship', 'position', 'compass', 'bearings'],
  properties: {
    ship: { type: 'integer', minimum: 1 },
    name: text,
    master: text,
    position,
    compass,
    spare: compass,
    last: { type: 'object', properties: { position, compass, harbour: text } },
    bearings: { type: 'array', minItems: 8, maxItems: 400, items: bearing },
  },
};

/** report is what a ship has sent in one watch. */
function report(ship, watch) {
  const [b, c] = [Math.sin(ship) * 6, Math.cos(ship * 3) * 4];
  const bearings = Array.from({ length: BEARINGS }, (_, n) => {
    const heading = (n * 360) / BEARINGS + watch * 2;
    const off = b * Math.sin(heading * RADIAN) + c * Math.cos(heading * RADIAN);
    const seen = 180 + ((n * 47 + ship) % 90);
    return { heading, seen, true: seen + off + Math.sin(n * ship) / 2, mark: `buoy ${n % 7}` };
  });
  const made = { maker: 'Plath', serial: `AB-${1000 + ship}`, adjusted: '2024-05-17', magnets: 4 };
  const at = { latitude: 54 + ship / 100, longitude: 8 + watch / 10, fix: 'radar' };
  return { ship, name: `Ship ${ship}`, position: at, compass: made, spare: made, bearings };
}

module.exports = { REPORT, report };
