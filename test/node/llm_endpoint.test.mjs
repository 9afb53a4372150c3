// The endpoint of examples/llm-endpoint over HTTP, with a model that does as it is told.
// The server is that of PGHOST, PGPORT, PGDATABASE, PGUSER.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { createEndpoint } from '../../examples/llm-endpoint/endpoint.mjs';

const example = fileURLToPath(new URL('../../examples/llm-endpoint', import.meta.url));
const database = `llm_endpoint_${process.pid}`;
const admin = new pg.Client();
const owner = new pg.Client({ database });
const role = `${database}_app`;
// the role of the endpoint may call its two functions, and nothing else
const pool = new pg.Pool({ database, user: role });
const running = [];

const row = async (text, ...values) => (await owner.query(text, values)).rows[0];

before(async () => {
  await admin.connect();
  await admin.query(`CREATE DATABASE ${database}`);
  await admin.query(`CREATE ROLE ${role} LOGIN`);
  await owner.connect();
  await owner.query('CREATE EXTENSION rate_limit');
  for (const file of ['schema.sql', 'endpoint.sql']) await owner.query(readFileSync(join(example, file), 'utf8'));
  await owner.query(`GRANT EXECUTE ON FUNCTION llm_reserve, llm_settle TO ${role}`);
  // limits that a test comes to quickly: 1,000 tokens a month, or 1,500 with overage
  await owner.query(`INSERT INTO plans VALUES ('tiny', 1000, 500)`);
  await owner.query(`INSERT INTO rate_limit_policies (policy, rule, "limit", "window") VALUES ('tiny:chat', 'minute', 100, '1 minute')`);
});

after(async () => {
  for (const server of running) {
    server.close();
    server.closeAllConnections();
  }
  await pool.end();
  await owner.end();
  await admin.query(`DROP DATABASE ${database}`);
  await admin.query(`DROP ROLE ${role}`);
  await admin.end();
});

async function addUser(key, plan, { time_zone = 'UTC', overage = false } = {}) {
  const { id } = await row(`INSERT INTO users (api_key_hash, plan, time_zone, overage)
    VALUES (sha256(convert_to($1, 'UTF8')), $2, $3, $4) RETURNING id`, key, plan, time_zone, overage);
  return id;
}

// An endpoint whose reservations for a turn of chat are 300 tokens, and whose model
// makes of each turn what "turn" says: { tokens, done }.
async function start(turn, options = {}) {
  const model = {
    countTokens: () => 100,
    chat: async ({ messages, maxTokens }) => {
      assert.equal(maxTokens, 200);
      return { messages: [{ role: 'assistant', content: `turn ${messages.length}` }], ...(await turn(messages)) };
    },
    embed: async ({ input }) => ({ embedding: [input.length], tokens: 10 }),
  };
  const server = createServer(createEndpoint({ pool, model, maxTokens: 200, ...options }));
  running.push(server);
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${server.address().port}`;
  return (key, feature = 'chat', body = JSON.stringify({ input: 'hello' })) => post(`${url}/${feature}`, key, body);
}

async function post(url, key, body) {
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  const response = await fetch(url, { method: 'POST', headers, body });
  return { status: response.status, headers: response.headers, body: await response.json() };
}

const used = async (id) =>
  Number((await row(`SELECT u.used FROM accounts a, rate_limit_peek('tokens:' || a.id, a.cap, '1 month', 0,
    'fixed_window', NULL, 'table', a.time_zone) u WHERE a.id = $1`, id)).used);

const endOfMonth = async (zone) =>
  (await row("SELECT (date_trunc('month', now() AT TIME ZONE $1) + interval '1 month') AT TIME ZONE $1 AS at", zone)).at;

test('requests per minute, each feature apart: 429 with Retry-After', async () => {
  await addUser('minute', 'free');
  const call = await start(() => ({ tokens: 10, done: true }));
  for (let n = 1; n <= 5; n++) {
    const { status, headers } = await call('minute');
    assert.equal(status, 200);
    assert.equal(headers.get('x-ratelimit-limit'), '5');
    assert.equal(headers.get('x-ratelimit-remaining'), String(5 - n));
    assert.equal(headers.get('ratelimit-policy'), '"minute";q=5;w=60');
    assert.match(headers.get('ratelimit'), new RegExp(`^"minute";r=${5 - n};t=(60|5\\d)$`));
    assert.equal(headers.get('retry-after'), null);
  }
  const { status, headers, body } = await call('minute');
  assert.equal(status, 429);
  assert.deepEqual(body, { error: 'rate limit exceeded', rule: 'minute', messages: [] });
  assert.equal(headers.get('x-ratelimit-remaining'), '0');
  const retryAfter = Number(headers.get('retry-after'));
  assert.ok(retryAfter > 30 && retryAfter <= 60, `Retry-After: ${retryAfter}`);
  const reset = Number(headers.get('x-ratelimit-reset'));
  assert.ok(Math.abs(reset - (Date.now() / 1000 + retryAfter)) <= 2, `X-RateLimit-Reset: ${reset}`);

  const other = await call('minute', 'embeddings');
  assert.equal(other.status, 200);
  assert.equal(other.headers.get('x-ratelimit-remaining'), '19');
});

test('what the minute refuses reserves no token', async () => {
  const id = await addUser('refused', 'free');
  const call = await start(() => ({ tokens: 10, done: true }));
  for (let n = 1; n <= 7; n++) await call('refused');
  assert.equal(await used(id), 50);
});

test('a month without overage: the answer says how far it is, then 429 to its end', async () => {
  const id = await addUser('month', 'tiny');
  const call = await start(() => ({ tokens: 300, done: true }));
  for (const total of [300, 600, 900]) {
    const { status, body } = await call('month');
    assert.equal(status, 200);
    assert.deepEqual(body.month, { used: total, included: 1000, overage: 0, resets_at: (await endOfMonth('UTC')).toISOString() });
  }
  const { status, headers, body } = await call('month');
  assert.deepEqual([status, body.rule], [429, 'month']);
  assert.equal(headers.get('x-ratelimit-limit'), '1000');
  assert.equal(headers.get('x-ratelimit-remaining'), '100');
  assert.equal(headers.get('ratelimit-policy'), '"month";q=1000');
  assert.equal(await used(id), 900);
});

test('with overage: up to what the user pays for, and no further', async () => {
  const id = await addUser('overage', 'tiny', { overage: true });
  const call = await start(() => ({ tokens: 300, done: true }));
  const seen = [];
  for (let n = 1; n <= 6; n++) seen.push(await call('overage'));
  assert.deepEqual(seen.map((r) => r.status), [200, 200, 200, 200, 200, 429]);
  assert.deepEqual(seen.slice(0, 5).map((r) => r.body.month.overage), [0, 0, 0, 200, 500]);
  assert.equal(seen[5].headers.get('x-ratelimit-limit'), '1500');
  assert.equal(await used(id), 1500);

  // agreed to, or no longer: acts on the next request
  await owner.query('UPDATE users SET overage = false WHERE id = $1', [id]);
  assert.equal((await call('overage')).headers.get('x-ratelimit-limit'), '1000');
});

test('what a turn has not used is given back, what it has used beyond is added', async () => {
  const id = await addUser('correction', 'tiny');
  let tokens = 40;
  const call = await start(() => ({ tokens, done: true }));
  assert.equal((await call('correction')).body.month.used, 40);
  tokens = 310;
  assert.equal((await call('correction')).body.month.used, 350);
  assert.equal(await used(id), 350);
});

test('a turn that fails is given back, and the user told to try again', async () => {
  const id = await addUser('failure', 'tiny');
  const call = await start(() => { throw new Error('the model is away'); });
  const { status, headers } = await call('failure');
  assert.deepEqual([status, headers.get('retry-after')], [503, '1']);
  assert.equal(await used(id), 0);
});

test('every turn of the loop is asked for; the request counts once', async () => {
  const id = await addUser('loop', 'tiny');
  const call = await start((messages) => ({ tokens: 250, done: messages.length === 3 }));
  const { status, headers, body } = await call('loop');
  assert.equal(status, 200);
  assert.deepEqual(body.messages.map((m) => m.content), ['turn 1', 'turn 2', 'turn 3']);
  assert.equal(body.month.used, 750);
  assert.equal(headers.get('x-ratelimit-remaining'), '99');
  assert.equal((await row("SELECT used FROM rate_limit_usage('tiny:chat', 'user:' || $1)", id)).used, '1');

  // 250 are left: the reservation of another turn does not fit
  const refused = await call('loop');
  assert.deepEqual([refused.status, refused.body.rule, await used(id)], [429, 'month', 750]);
});

test('the loop ends in mid-request when the month does not suffice, with what it has', async () => {
  const id = await addUser('ends', 'tiny');
  const call = await start(() => ({ tokens: 300, done: false }));
  const { status, headers, body } = await call('ends');
  assert.deepEqual([status, body.rule], [429, 'month']);
  assert.deepEqual(body.messages.map((m) => m.content), ['turn 1', 'turn 2', 'turn 3']);
  assert.ok(Number(headers.get('retry-after')) >= 1);
  assert.equal(await used(id), 900);
});

test('fault 26: five calls at once never spend more than the cap', async () => {
  const id = await addUser('five', 'tiny');
  let inside = 0, refused = 0, spent = 0, letGo;
  const gate = new Promise((resolve) => { letGo = resolve; });
  // no turn ends before all five have been decided on
  const decided = () => { if (inside + refused === 5) letGo(); };
  const call = await start(async () => {
    inside++;
    decided();
    await gate;
    spent += 300;
    return { tokens: 300, done: true };
  });
  const calls = Array.from({ length: 5 }, async () => {
    const { status } = await call('five');
    if (status !== 200) refused++;
    decided();
    return status;
  });
  const statuses = (await Promise.all(calls)).sort();
  assert.deepEqual(statuses, [200, 200, 200, 429, 429]);
  assert.deepEqual([inside, spent, await used(id)], [3, 900, 900]);
});

test('a change of the plan, or of its limits, acts on the next request', async () => {
  const id = await addUser('upgrade', 'tiny');
  const call = await start(() => ({ tokens: 300, done: true }));
  for (let n = 1; n <= 3; n++) await call('upgrade');
  assert.equal((await call('upgrade')).status, 429);
  await owner.query("UPDATE users SET plan = 'pro' WHERE id = $1", [id]);
  const upgraded = await call('upgrade');
  assert.equal(upgraded.status, 200);
  assert.equal(upgraded.headers.get('x-ratelimit-limit'), '60');
  assert.deepEqual([upgraded.body.month.used, upgraded.body.month.included], [1200, 1000000]);

  // what was used stays: back in the small plan the month is over
  await owner.query("UPDATE users SET plan = 'tiny' WHERE id = $1", [id]);
  const downgraded = await call('upgrade');
  assert.deepEqual([downgraded.status, downgraded.headers.get('x-ratelimit-remaining')], [429, '0']);
  await owner.query("UPDATE plans SET tokens_per_month = 1600 WHERE plan = 'tiny'");
  assert.equal((await call('upgrade')).status, 200);
  await owner.query("UPDATE plans SET tokens_per_month = 1000 WHERE plan = 'tiny'");

  await owner.query(`UPDATE rate_limit_policies SET "limit" = 4 WHERE policy = 'tiny:chat'`);
  const lowered = await call('upgrade');
  assert.deepEqual([lowered.status, lowered.body.rule, lowered.headers.get('x-ratelimit-limit')], [429, 'minute', '4']);
  await owner.query(`UPDATE rate_limit_policies SET "limit" = 100 WHERE policy = 'tiny:chat'`);
});

test('an unknown plan is free, a feature without a policy has the smallest limit', async () => {
  const id = await addUser('unknown', 'platinum');
  const call = await start(() => ({ tokens: 1, done: true }));
  const { status, headers, body } = await call('unknown');
  assert.deepEqual([status, headers.get('x-ratelimit-limit'), body.month.included], [200, '5', 10000]);
  assert.equal((await call('unknown', 'embeddings')).headers.get('x-ratelimit-limit'), '20');

  await owner.query("UPDATE users SET plan = 'tiny' WHERE id = $1", [id]);
  const forgotten = await call('unknown', 'embeddings');
  assert.deepEqual([forgotten.status, forgotten.headers.get('x-ratelimit-limit')], [200, '5']);
});

test("the month ends at midnight of the user's time zone", async () => {
  const call = await start(() => ({ tokens: 300, done: true }));
  const zones = ['UTC', 'Europe/Berlin', 'America/Los_Angeles', 'Pacific/Kiritimati'];
  for (const zone of zones) {
    const id = await addUser(zone, 'tiny', { time_zone: zone });
    const at = await endOfMonth(zone);
    const spend = (month, offset) => owner.query(`SELECT rate_limit_adjust_at(
      (date_trunc('month', now() AT TIME ZONE $2) + interval '1 us' * $3::int) AT TIME ZONE $2,
      'tokens:' || $1, 1000, '1 month', 800, 'fixed_window', NULL, 'table', $2)`, [id, zone, offset]);

    // the last microsecond of the month before does not count, the first of this one does
    await spend(id, -1);
    assert.equal((await call(zone)).body.month.used, 300, zone);
    await owner.query("SELECT rate_limit_reset('tokens:' || $1)", [id]);
    await spend(id, 0);
    const { status, headers } = await call(zone);
    assert.equal(status, 429, zone);
    assert.equal(headers.get('x-ratelimit-reset'), String(at / 1000), zone);
    const retryAt = Date.now() + Number(headers.get('retry-after')) * 1000;
    assert.ok(Math.abs(retryAt - at) <= 2000, `${zone}: Retry-After ${headers.get('retry-after')}`);
  }
});

test('a user who moves to another time zone takes along what was used', async () => {
  const id = await addUser('moves', 'tiny', { time_zone: 'Europe/Berlin' });
  const call = await start(() => ({ tokens: 300, done: true }));
  await call('moves');
  for (const zone of ['Asia/Tokyo', 'Europe/Berlin']) {
    await owner.query('UPDATE users SET time_zone = $2 WHERE id = $1', [id, zone]);
    assert.equal(await used(id), 300, zone);
  }
  assert.equal((await call('moves')).body.month.used, 600);
});

test('what was reserved in a month that is over is not given back to the next', async () => {
  const id = await addUser('over', 'tiny');
  const settle = async (delta, end) => Number((await row('SELECT * FROM llm_settle($1, $2, $3)', id, delta, end)).used);
  assert.equal((await row("SELECT allowed FROM llm_reserve('over', 'chat', 300, 1)")).allowed, true);
  assert.equal(await settle(-100, new Date(Date.now() - 1000)), 300);
  assert.equal(await settle(-100, new Date(Date.now() + 60000)), 200);
  assert.equal(await settle(50, new Date(Date.now() - 1000)), 250);
});

test('a turn that could never be made has no Retry-After, a blocked key does not pass', async () => {
  const id = await addUser('never', 'tiny');
  const call = await start(() => ({ tokens: 1, done: true }));
  await owner.query("UPDATE plans SET tokens_per_month = 299 WHERE plan = 'tiny'");
  const never = await call('never');
  await owner.query("UPDATE plans SET tokens_per_month = 1000 WHERE plan = 'tiny'");
  assert.deepEqual([never.status, never.body.rule, never.headers.get('retry-after')], [429, 'month', null]);

  await owner.query("SELECT rate_limit_block('user:' || $1, '1 hour')", [id]);
  const blocked = await call('never');
  assert.deepEqual([blocked.status, blocked.body.rule, blocked.headers.get('retry-after')], [429, 'block', '3600']);
  assert.equal(await used(id), 0);
});

test('no key, a wrong key, no feature, no input', async () => {
  await addUser('right', 'pro');
  const call = await start(() => ({ tokens: 1, done: true }));
  assert.equal((await call(null)).status, 401);
  assert.equal((await call('wrong')).status, 401);
  assert.equal((await call('right', 'images')).status, 404);
  assert.equal((await call('right', 'toString')).status, 404);
  for (const body of ['', '[]', '{"input": 1}', JSON.stringify({ input: 'x'.repeat(200_000) })]) {
    assert.equal((await call('right', 'chat', body)).status, 400);
  }
});

test('nothing passes while the database is away', async () => {
  let turns = 0;
  const away = new pg.Pool({ database, host: '/nowhere', connectionTimeoutMillis: 500 });
  const call = await start(() => { turns++; return { tokens: 1, done: true }; }, { pool: away });
  const { status, headers } = await call('minute');
  assert.deepEqual([status, headers.get('retry-after'), turns], [503, '1', 0]);
  await away.end();
});

test('server.mjs starts, and its model answers', async () => {
  await addUser('server', 'pro');
  // in a folder here, where it finds pg
  const folder = mkdtempSync(fileURLToPath(new URL('llm_endpoint.', import.meta.url)));
  cpSync(example, folder, { recursive: true });
  const server = spawn(process.execPath, [join(folder, 'server.mjs')],
    { env: { ...process.env, PORT: '0', PGDATABASE: database, PGUSER: role }, stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    const [line] = await new Promise((resolve) => server.stdout.once('data', (data) => resolve(String(data).split('\n'))));
    const url = `http://127.0.0.1:${line.match(/^listening on port (\d+)$/)[1]}`;
    const { status, body } = await post(`${url}/chat`, 'server', JSON.stringify({ input: 'hello' }));
    assert.equal(status, 200);
    assert.deepEqual(body.messages, [{ role: 'assistant', content: 'You said: hello' }]);
    assert.equal(body.month.used, 9);
    assert.deepEqual((await post(`${url}/embeddings`, 'server', JSON.stringify({ input: 'hello' }))).body.embedding, [5]);
  } finally {
    server.kill();
    rmSync(folder, { recursive: true });
  }
});
