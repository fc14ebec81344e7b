'use strict';

// The site's data, always the same for a seed: 14 airports, 394 flight segments between
// them, 1,970 flights, and as many customers as are asked for.
//
// Each of the 182 ordered pairs of airports has two segments, and the first 30 a third.
// A segment is flown on five days of thirteen, a pair's second one a day before its first,
// so that there is a flight from one airport to another on ten days of these.

const AIRPORTS = [
  ['AMS', 'Amsterdam', 52.3, 4.8], ['BOG', 'Bogota', 4.7, -74.1], ['CAI', 'Cairo', 30.1, 31.4], ['CPT', 'Cape Town', -34.0, 18.6],
  ['DEL', 'Delhi', 28.6, 77.1], ['GRU', 'Sao Paulo', -23.4, -46.5], ['HND', 'Tokyo', 35.6, 139.8], ['JFK', 'New York', 40.6, -73.8],
  ['LHR', 'London', 51.5, -0.5], ['NBO', 'Nairobi', -1.3, 36.9], ['SFO', 'San Francisco', 37.6, -122.4], ['SIN', 'Singapore', 1.4, 104.0],
  ['SYD', 'Sydney', -33.9, 151.2], ['YYZ', 'Toronto', 43.7, -79.6],
];
const SEGMENTS = 394;
const DAYS = 13;
const PAIRS = AIRPORTS.length * (AIRPORTS.length - 1);
// Segment n is flown on day d where (d + n + how many segments its pair has before it)
// modulo DAYS is one of these.
const FLOWN = [0, 3, 5, 8, 10];
const FIRST_DAY = Date.UTC(2018, 7, 27);
const DAY_MILLISECONDS = 24 * 60 * 60 * 1000;

// random gives numbers from 0 to 1 (mulberry32).
function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const airports = () => AIRPORTS.map(([code, name]) => ({ _id: code, airportName: name }));

// miles is the great circle between two airports.
function miles([, , latitude, longitude], [, , toLatitude, toLongitude]) {
  const radians = Math.PI / 180;
  const cosine = Math.sin(latitude * radians) * Math.sin(toLatitude * radians)
    + Math.cos(latitude * radians) * Math.cos(toLatitude * radians) * Math.cos((longitude - toLongitude) * radians);
  return Math.round(3959 * Math.acos(Math.max(-1, Math.min(1, cosine))));
}

function segments() {
  const pairs = AIRPORTS.flatMap((from) => AIRPORTS.filter((to) => to !== from).map((to) => [from, to]));
  return Array.from({ length: SEGMENTS }, (_, n) => {
    const [from, to] = pairs[n % PAIRS];
    return { _id: `TA${n}`, originPort: from[0], destPort: to[0], miles: miles(from, to) };
  });
}

function flights(seed) {
  const draw = random(seed);
  const all = [];
  segments().forEach((segment, n) => {
    for (let day = 0; day < DAYS; day++) {
      if (!FLOWN.includes((day + n + Math.floor(n / PAIRS)) % DAYS)) continue;
      const departs = FIRST_DAY + day * DAY_MILLISECONDS;
      all.push({
        _id: `${segment._id}-${day}`, flightSegmentId: segment._id,
        scheduledDepartureTime: new Date(departs),
        scheduledArrivalTime: new Date(departs + Math.round(segment.miles / 500 * 60) * 60 * 1000),
        firstClassBaseCost: 400 + Math.floor(draw() * 400), economyClassBaseCost: 100 + Math.floor(draw() * 200),
        numFirstClassSeats: 10, numEconomyClassSeats: 200, airplaneTypeId: 'B747',
      });
    }
  });
  return all;
}

const customerId = (n) => `uid${n}@example.org`;
const PASSWORD = 'password';

function customer(n, draw) {
  return {
    _id: customerId(n), password: PASSWORD, status: draw() < 0.2 ? 'GOLD' : 'SILVER',
    total_miles: Math.floor(draw() * 1000000), miles_ytd: Math.floor(draw() * 1000),
    address: {
      streetAddress1: `${1 + Math.floor(draw() * 999)} Main St.`, city: AIRPORTS[Math.floor(draw() * AIRPORTS.length)][1],
      stateProvince: 'NC', country: 'USA', postalCode: String(10000 + Math.floor(draw() * 90000)),
    },
    phoneNumber: `919-${100 + Math.floor(draw() * 900)}-${1000 + Math.floor(draw() * 9000)}`, phoneNumberType: 'BUSINESS',
  };
}

function* customers(count, seed) {
  const draw = random(seed + 1);
  for (let n = 0; n < count; n++) yield customer(n, draw);
}

// bookings are as many of each of the first customers, as if made before.
function* bookings(users, each, seed) {
  const draw = random(seed + 2);
  const booked = flights(seed);
  for (let n = 0; n < users * each; n++) {
    const flight = booked[Math.floor(draw() * booked.length)];
    yield {
      _id: `seeded-${seed}-${String(n).padStart(26, '0')}`, customerId: customerId(n % users),
      flightId: flight._id, flightSegmentId: flight.flightSegmentId, dateOfBooking: new Date(FIRST_DAY),
    };
  }
}

module.exports = { airports, segments, flights, customers, bookings };
