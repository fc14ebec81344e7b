'use strict';

// The booking site's application. Every business call asks the authentication service
// whose session its cookie names; look-ups of segments and flights are cached. Bodies are
// JSON, or forms.
//
//   POST /rest/api/login                      login, password; sets the cookie
//   GET  /rest/api/login/logout
//   POST /rest/api/flights/queryflights       fromAirport, toAirport, fromDate, returnDate, oneWay
//   POST /rest/api/bookings/bookflights       userid, toFlightId, oneWayFlight, retFlightId
//   POST /rest/api/bookings/cancelbooking     userid, number
//   GET  /rest/api/bookings/byuser/USER
//   GET  /rest/api/customer/byid/USER
//   POST /rest/api/customer/byid/USER         phoneNumber, address
//   GET  /rest/api/config                     how much data there is
//   POST /rest/api/config/load                query: customers, users, bookings, seed

const { randomUUID } = require('node:crypto');
const http = require('node:http');
const express = require('express');
const data = require('./data.js');
const { read, connect, serve } = require('./options.js');

const CACHED_MILLISECONDS = 20 * 60 * 1000;
const COOKIE = 'sessionid';
const BATCH = 500; // documents inserted at a time

// Refusal is an answer other than success.
class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// Cache remembers what was looked up, also that there was nothing.
class Cache {
  #entries = new Map();

  async get(key, look) {
    const held = this.#entries.get(key);
    if (held && held.until > Date.now()) return held.value;
    const value = await look();
    this.#entries.set(key, { value, until: Date.now() + CACHED_MILLISECONDS });
    return value;
  }

  clear() {
    this.#entries.clear();
  }
}

// Sessions asks the authentication service, over connections that are kept.
class Sessions {
  #agent = new http.Agent({ keepAlive: true });
  #host;
  #port;

  constructor(address) {
    const colon = address.lastIndexOf(':');
    this.#host = address.slice(0, colon);
    this.#port = Number(address.slice(colon + 1));
  }

  // ask gives the status and the JSON body of an answer.
  #ask(method, path, body) {
    return new Promise((resolve, reject) => {
      const text = body && JSON.stringify(body);
      const request = http.request({
        agent: this.#agent, host: this.#host, port: this.#port, method, path,
        headers: text ? { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) } : {},
      }, (response) => {
        const parts = [];
        response.on('data', (part) => parts.push(part));
        response.on('error', reject);
        response.on('end', () => {
          try {
            resolve({ status: response.statusCode, body: JSON.parse(Buffer.concat(parts).toString()) });
          } catch (error) {
            reject(error);
          }
        });
      });
      request.on('error', reject);
      request.end(text);
    });
  }

  // ready tells whether the service answers: programs that are started together come up
  // in any order, so one that does not listen yet is no error.
  async ready() {
    try {
      return (await this.#ask('GET', '/status')).status === 200;
    } catch (error) {
      if (error.code === 'ECONNREFUSED') return false;
      throw error;
    }
  }

  async begin(user) {
    const { status, body } = await this.#ask('POST', '/sessions', { user });
    if (status !== 201) throw new Error(`a new session was answered with ${status}`);
    return body.session;
  }

  // user is whose session it is, or undefined.
  async user(session) {
    const { status, body } = await this.#ask('GET', `/sessions/${encodeURIComponent(session)}`);
    if (status === 200) return body.user;
    if (status === 404) return undefined;
    throw new Error(`a session was answered with ${status}`);
  }

  async end(session) {
    return (await this.#ask('DELETE', `/sessions/${encodeURIComponent(session)}`)).status === 200;
  }
}

// cookie is the value of the session's cookie, or undefined.
function cookie(request) {
  for (const each of (request.headers.cookie || '').split(';')) {
    const [name, value] = each.trim().split('=', 2);
    if (name === COOKIE) return value;
  }
  return undefined;
}

// whole is a whole number of a query.
function whole(query, name, low, high) {
  const n = Number(query[name]);
  if (!Number.isInteger(n) || n < low || n > high) throw new Refusal(400, `${name}=${query[name]}: want a whole number from ${low} to ${high}`);
  return n;
}

function day(text) {
  const date = new Date(text);
  if (Number.isNaN(date.getTime())) throw new Refusal(400, `${text} is no date`);
  return date;
}

// site gives the routes over a database and sessions.
function site(database, sessions) {
  const collection = Object.fromEntries(['customer', 'customerSession', 'airportCodeMapping', 'flightSegment', 'flight', 'booking']
    .map((name) => [name, database.collection(name)]));
  const segmentsOf = new Cache();
  const flightOn = new Cache();

  const options = async (from, to, date) => {
    const segments = await segmentsOf.get(`${from} ${to}`, () => collection.flightSegment.find({ originPort: from, destPort: to }).toArray());
    const found = [];
    for (const segment of segments) {
      const flight = await flightOn.get(`${segment._id} ${date.getTime()}`,
        () => collection.flight.findOne({ flightSegmentId: segment._id, scheduledDepartureTime: date }));
      if (flight) found.push({ ...flight, flightSegment: segment });
    }
    return { numPages: 1, flightsOptions: found, currentPage: 0, hasMoreOptions: false, pageSize: 10 };
  };

  const book = async (user, flightId) => {
    const flight = await flightOn.get(`id ${flightId}`, () => collection.flight.findOne({ _id: flightId }));
    if (!flight) throw new Refusal(404, `no flight ${flightId}`);
    const booking = { _id: randomUUID(), customerId: user, flightId, flightSegmentId: flight.flightSegmentId, dateOfBooking: new Date() };
    await collection.booking.insertOne(booking);
    return booking._id;
  };

  const fill = async (name, documents) => {
    await collection[name].deleteMany({});
    let count = 0;
    for (let batch = []; ; batch = []) {
      for (let next; batch.length < BATCH && !(next = documents.next()).done;) batch.push(next.value);
      if (batch.length === 0) return count;
      count += (await collection[name].insertMany(batch)).insertedCount;
    }
  };

  // answering turns a promise into Express' way, and wants a session where it is to be
  // had, of the user that the call is about.
  const open = (handle) => (request, response, next) => handle(request, response).catch(next);
  const business = (about, handle) => open(async (request, response) => {
    const session = cookie(request);
    const user = session && await sessions.user(session);
    if (!user) throw new Refusal(403, 'no session');
    const meant = about && about(request);
    if (about && meant !== user) throw new Refusal(403, `the session is not ${meant}'s`);
    await handle(request, response, user);
  });
  const named = (request) => request.params.user;
  const posted = (request) => request.body.userid;

  const application = express();
  application.disable('x-powered-by');
  application.disable('etag');
  application.use(express.urlencoded({ extended: false }), express.json());
  const api = express.Router();
  application.use('/rest/api', api);

  api.post('/login', open(async (request, response) => {
    const customer = await collection.customer.findOne({ _id: String(request.body.login) });
    if (!customer || customer.password !== request.body.password) throw new Refusal(403, 'unknown user, or wrong password');
    const session = await sessions.begin(customer._id);
    response.cookie(COOKIE, session, { httpOnly: true }).json({ user: customer._id, session });
  }));

  api.get('/login/logout', business(null, async (request, response, user) => {
    if (!await sessions.end(cookie(request))) throw new Refusal(404, 'the session has ended already');
    response.clearCookie(COOKIE).json({ user, loggedOut: true });
  }));

  api.post('/flights/queryflights', business(null, async (request, response) => {
    const { fromAirport, toAirport, fromDate, returnDate, oneWay } = request.body;
    const legs = [await options(fromAirport, toAirport, day(fromDate))];
    if (oneWay !== 'true') legs.push(await options(toAirport, fromAirport, day(returnDate)));
    response.json({ tripFlights: legs, tripLegs: legs.length });
  }));

  api.post('/bookings/bookflights', business(posted, async (request, response, user) => {
    const { toFlightId, retFlightId, oneWayFlight } = request.body;
    const oneWay = oneWayFlight === 'true';
    const answer = { oneWay, departBookingId: await book(user, String(toFlightId)) };
    if (!oneWay) answer.returnBookingId = await book(user, String(retFlightId));
    response.json(answer);
  }));

  api.post('/bookings/cancelbooking', business(posted, async (request, response, user) => {
    const { deletedCount } = await collection.booking.deleteOne({ _id: String(request.body.number), customerId: user });
    if (deletedCount !== 1) throw new Refusal(404, `${user} has no booking ${request.body.number}`);
    response.json({ status: 'success', number: request.body.number });
  }));

  api.get('/bookings/byuser/:user', business(named, async (request, response, user) => {
    response.json(await collection.booking.find({ customerId: user }).toArray());
  }));

  const profile = async (user) => collection.customer.findOne({ _id: user }, { projection: { password: 0 } });

  api.get('/customer/byid/:user', business(named, async (request, response, user) => response.json(await profile(user))));

  api.post('/customer/byid/:user', business(named, async (request, response, user) => {
    const { phoneNumber, address } = request.body;
    await collection.customer.updateOne({ _id: user }, { $set: { phoneNumber, address } });
    response.json(await profile(user));
  }));

  api.get('/config', open(async (request, response) => {
    if (!await sessions.ready()) throw new Refusal(503, 'the authentication service is not ready');
    const counts = {};
    for (const name of Object.keys(collection)) counts[name] = await collection[name].countDocuments({});
    response.json(counts);
  }));

  api.post('/config/load', open(async (request, response) => {
    const customers = whole(request.query, 'customers', 1, 1000000);
    const users = whole(request.query, 'users', 1, customers);
    const each = whole(request.query, 'bookings', 0, 100);
    const seed = whole(request.query, 'seed', 0, 2 ** 31);
    await collection.flight.createIndex({ flightSegmentId: 1, scheduledDepartureTime: 1 }, { unique: true });
    const loaded = {
      customerSession: await fill('customerSession', [].values()),
      airportCodeMapping: await fill('airportCodeMapping', data.airports().values()),
      flightSegment: await fill('flightSegment', data.segments().values()),
      flight: await fill('flight', data.flights(seed).values()),
      customer: await fill('customer', data.customers(customers, seed)),
      booking: await fill('booking', data.bookings(users, each, seed)),
    };
    segmentsOf.clear();
    flightOn.clear();
    response.json(loaded);
  }));

  // Express knows by the fourth parameter that it is for errors.
  application.use((error, request, response, next) => { // eslint-disable-line no-unused-vars
    const status = error.status || 500;
    if (status >= 500 && !(error instanceof Refusal)) process.stderr.write(`app.js: ${request.method} ${request.path}: ${error.stack}\n`);
    response.status(status).json({ error: error.message });
  });
  return application;
}

async function main() {
  const options = read('app.js', ['address', 'port', 'auth', 'database']);
  const database = await connect(options.database);
  serve('app.js', site(database, new Sessions(options.auth)), options);
}

main().catch((error) => {
  process.stderr.write(`app.js: ${error.stack}\n`);
  process.exit(1);
});
