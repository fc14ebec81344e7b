'use strict';

// The booking site's authentication service: sessions, each a document.
//
//   GET    /status         whether it serves
//   POST   /sessions       a new one, of the user that the JSON body names
//   GET    /sessions/ID    whose it is; 404 where there is none
//   DELETE /sessions/ID    ends it

const { randomUUID } = require('node:crypto');
const express = require('express');
const { read, connect, serve } = require('./options.js');

const SESSION_MILLISECONDS = 24 * 60 * 60 * 1000;

async function main() {
  const options = read('auth.js', ['address', 'port', 'database']);
  const database = await connect(options.database);
  const sessions = database.collection('customerSession');

  const application = express();
  application.disable('x-powered-by');
  application.disable('etag');

  application.get('/status', async (request, response, next) => {
    try {
      await database.command({ ping: 1 });
      response.json({ ready: true });
    } catch (error) {
      next(error);
    }
  });

  application.post('/sessions', express.json(), async (request, response, next) => {
    try {
      const now = Date.now();
      const session = {
        _id: randomUUID(), customerId: String(request.body.user),
        lastAccessedTime: new Date(now), timeoutTime: new Date(now + SESSION_MILLISECONDS),
      };
      await sessions.insertOne(session);
      response.status(201).json({ session: session._id, user: session.customerId });
    } catch (error) {
      next(error);
    }
  });

  application.get('/sessions/:id', async (request, response, next) => {
    try {
      const session = await sessions.findOne({ _id: request.params.id });
      if (!session || session.timeoutTime < Date.now()) return response.status(404).json({ error: 'no such session' });
      response.json({ session: session._id, user: session.customerId });
    } catch (error) {
      next(error);
    }
  });

  application.delete('/sessions/:id', async (request, response, next) => {
    try {
      const { deletedCount } = await sessions.deleteOne({ _id: request.params.id });
      response.status(deletedCount === 1 ? 200 : 404).json({ ended: deletedCount });
    } catch (error) {
      next(error);
    }
  });

  serve('auth.js', application, options);
}

main().catch((error) => {
  process.stderr.write(`auth.js: ${error.stack}\n`);
  process.exit(1);
});
