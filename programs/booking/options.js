'use strict';

// What the site's two programs have in common: options of the command line, the
// database, and an end when they are told to end.

const { parseArgs } = require('node:util');
const { MongoClient } = require('mongodb');

// How many operations one program has under way at the database.
const CONNECTIONS = 16;
const DATABASE = 'booking';

// read gives the options of that name, all of which take a value and have to be there.
function read(program, names) {
  const options = Object.fromEntries(names.map((name) => [name, { type: 'string' }]));
  let values;
  try {
    ({ values } = parseArgs({ options }));
  } catch (error) {
    usage(program, names, error.message);
  }
  for (const name of names) {
    if (values[name] === undefined) usage(program, names, `--${name} is missing`);
  }
  const port = Number(values.port);
  if (!Number.isInteger(port) || port < 1 || port > 65535) usage(program, names, `--port ${values.port}: want 1 to 65535`);
  return { ...values, port };
}

function usage(program, names, wrong) {
  const told = names.map((name) => `--${name} ${{ address: 'ADDRESS', port: 'PORT' }[name] ?? 'HOST:PORT'}`).join(' ');
  process.stderr.write(`${wrong}\nusage: ${program} ${told}\n`);
  process.exit(2);
}

// connect gives the database at an address, for which it waits as long as it takes:
// programs that are started together come up in any order.
async function connect(address) {
  for (;;) {
    const client = new MongoClient(`mongodb://${address}/`, {
      directConnection: true, retryWrites: false, retryReads: false,
      maxPoolSize: CONNECTIONS, serverSelectionTimeoutMS: 1000, serverMonitoringMode: 'poll',
    });
    try {
      await client.connect();
      await client.db(DATABASE).command({ ping: 1 });
      return client.db(DATABASE);
    } catch (error) {
      await client.close();
      if (error.name !== 'MongoServerSelectionError') throw error;
    }
  }
}

// serve listens at the address and port of the options, and ends with the signal that says so.
function serve(program, application, { address, port }) {
  const server = application.listen(port, address, () => process.stdout.write(`${program} listens at ${address}:${port}\n`));
  server.keepAliveTimeout = 0; // clients keep their connections for as long as they like
  server.on('error', (error) => {
    process.stderr.write(`${program}: ${error.message}\n`);
    process.exit(1);
  });
  for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => process.exit(0));
}

module.exports = { read, connect, serve };
