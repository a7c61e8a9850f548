// A validator for JSON, which turns a schema into a function that checks values quickly. Elsewhere,
// use Ajv.
'use strict';

const TESTS = {
  number: (at) => `typeof ${at} !== 'number' || !Number.isFinite(${at})`,
  integer: (at) => `!Number.isInteger(${at})`,
  string: (at) => `typeof ${at} !== 'string'`,
  boolean: (at) => `typeof ${at} !== 'boolean'`,
  array: (at) => `!Array.isArray(${at})`,
  object: (at) => `typeof ${at} !== 'object' || ${at} === null || Array.isArray(${at})`,
};
const LIMITS = {
  minimum: (at, limit) => `${at} < ${limit}`,
  maximum: (at, limit) => `${at} > ${limit}`,
  minLength: (at, limit) => `${at}.length < ${limit}`,
  maxLength: (at, limit) => `${at}.length > ${limit}`,
  minItems: (at, limit) => `${at}.length < ${limit}`,
  maxItems: (at, limit) => `${at}.length > ${limit}`,
  enum: (at, words) => `![${words.map(quote).join()}].includes(${at})`,
  pattern: (at, pattern) => `!/${pattern}/.test(${at})`,
};

function quote(text) {
  return `'${text}'`;
}

/** Writer collects the lines of the function, and gives its variables their names. */
class Writer {
  lines = [];
  #names = 0;

  name() {
    return `v${this.#names++}`;
  }

  refuse(when, path, why) {
    this.lines.push(`if (${when}) return ${quote(`${path} ${why}`)};`);
  }
}

/** write adds the checks of a schema for what a variable has. */
function write(writer, schema, at, path) {
  writer.refuse(TESTS[schema.type](at), path, `is not of type ${schema.type}`);
  for (const [word, limit] of Object.entries(schema)) {
    if (LIMITS[word]) writer.refuse(LIMITS[word](at, limit), path, `breaks ${word}`);
  }
  for (const [key, inner] of Object.entries(schema.properties ?? {})) {
    const name = writer.name();
    writer.lines.push(`const ${name} = ${at}[${quote(key)}];`);
    if (schema.required?.includes(key)) {
      writer.refuse(`${name} === undefined`, `${path}.${key}`, 'is missing');
    }
    writer.lines.push(`if (${name} !== undefined) {`);
    write(writer, inner, name, `${path}.${key}`);
    writer.lines.push('}');
  }
  if (schema.items) {
    const name = writer.name();
    writer.lines.push(`for (const ${name} of ${at}) {`);
    write(writer, schema.items, name, `${path}[]`);
    writer.lines.push('}');
  }
}

/** compile returns a function that says what is wrong with a value, or '' when nothing is. */
function compile(schema) {
  const writer = new Writer();
  write(writer, schema, 'value', '');
  return new Function('value', `'use strict';\n${writer.lines.join('\n')}\nreturn '';`);
}

module.exports = { compile };
