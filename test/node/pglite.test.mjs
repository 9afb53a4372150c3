// The SQL edition inside PGlite: it installs, and every function does its work.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { PGlite } from '@electric-sql/pglite';

const db = new PGlite();
const row = async (text, values) => (await db.query(text, values)).rows[0];
const algorithms = ['sliding_window', 'fixed_window', 'anchored_window', 'token_bucket'];

before(async () => {
  const folder = mkdtempSync(join(tmpdir(), 'rate_limit'));
  execFileSync(fileURLToPath(new URL('../../sql_edition/build', import.meta.url)), [folder]);
  const script = readdirSync(folder).find((name) => name.startsWith('rate_limit_sql--'));
  await db.exec(readFileSync(join(folder, script), 'utf8'));
  rmSync(folder, { recursive: true });
});

after(() => db.close());

for (const algorithm of algorithms) {
  test(`check, ${algorithm}`, async () => {
    const check = () =>
      row('SELECT * FROM rate_limit_check($1, $2, $3, algorithm => $4)', ['check', 20, '876000 hours', algorithm]);
    const first = await check();
    assert.deepEqual(Object.keys(first), ['allowed', 'limit', 'used', 'remaining', 'retry_after', 'reset_at', 'rule']);
    assert.deepEqual([first.allowed, first.limit, first.used, first.remaining, first.rule], [true, 20, 1, 19, null]);
    assert.ok(first.reset_at > Date.now());
    const others = await Promise.all(Array.from({ length: 50 }, check));
    assert.equal(others.filter((r) => r.allowed).length, 19);
    assert.ok(others.at(-1).retry_after > 0);
  });
}

test('allowed', async () => {
  const allowed = () => row('SELECT rate_limit_allowed($1, $2, $3) AS ok', ['allowed', 1, '1 hour']);
  assert.deepEqual([(await allowed()).ok, (await allowed()).ok], [true, false]);
});

test('require', async () => {
  const require = (cost) => db.query('SELECT rate_limit_require($1, $2, $3, $4)', ['require', 2, '1 hour', cost]);
  await require(2);
  await assert.rejects(require(1), (err) => {
    assert.equal(err.code, 'RL429');
    assert.equal(err.message, 'rate limit exceeded for key "require"');
    const result = JSON.parse(err.detail);
    assert.deepEqual([result.allowed, result.limit, result.used, result.remaining], [false, 2, 2, 0]);
    assert.equal(Number(err.hint.match(/^Retry in ([\d.]+) seconds\.$/)[1]), result.retry_after);
    return true;
  });
  await assert.rejects(require(3), (err) => err.code === 'RL429' && JSON.parse(err.detail).retry_after === null);
});

test('peek', async () => {
  const peek = () => row('SELECT * FROM rate_limit_peek($1, $2, $3, $4)', ['peek', 2, '1 hour', 2]);
  assert.equal((await peek()).allowed, true);
  assert.equal((await peek()).used, 0);
});

test('adjust', async () => {
  const adjust = (delta) => row('SELECT * FROM rate_limit_adjust($1, $2, $3, $4)', ['adjust', 2, '1 hour', delta]);
  assert.equal((await adjust(5)).used, 5);
  assert.equal((await adjust(-4)).used, 1);
});

test('check_all', async () => {
  const check = async (costs) =>
    (await db.query('SELECT * FROM rate_limit_check_all($1, $2, $3, $4)',
      [['minute', 'day'], [2, 3], ['1 minute', '1 day'], costs])).rows.map((r) => [r.ord, r.key, r.allowed, r.used]);
  assert.deepEqual(await check([1, 3]), [[1, 'minute', true, 1], [2, 'day', true, 3]]);
  assert.deepEqual(await check(null), [[1, 'minute', true, 1], [2, 'day', false, 3]]);
});

test('check_at, peek_at, adjust_at', async () => {
  const call = (name, second, cost = 1) =>
    row(`SELECT * FROM rate_limit_${name}_at($1, 'at', 1, '10 seconds', $2)`, [new Date(Date.UTC(2024, 0, 1, 12, 0, second)), cost]);
  assert.equal((await call('check', 0)).allowed, true);
  assert.equal((await call('check', 4)).retry_after, 6);
  assert.equal((await call('peek', 10)).allowed, true);
  assert.equal((await call('adjust', 5, 2)).used, 3);
});

test('a calendar window in a time zone', async () => {
  const zone = (at, name) =>
    row("SELECT reset_at::text AS text FROM rate_limit_check_at($1, 'zone', 9, '1 day', 1, 'fixed_window', time_zone => $2)", [at, name]);
  assert.equal(new Date((await zone('2024-03-30 23:30Z', 'europe/berlin')).text).toISOString(), '2024-03-31T22:00:00.000Z');
  await assert.rejects(zone('2024-03-30 23:30Z', 'Mars/Olympus'), (err) => err.code === '22023');
});

test('block, unblock, rate_limit_blocks', async () => {
  const check = () => row('SELECT * FROM rate_limit_check($1, $2, $3)', ['block', 1, '1 hour']);
  await db.query('SELECT rate_limit_block($1, $2, $3)', ['block', '1 hour', 'abuse']);
  assert.equal((await check()).rule, 'block');
  assert.equal((await row('SELECT * FROM rate_limit_blocks')).reason, 'abuse');
  await db.query('SELECT rate_limit_block($1)', ['block']);
  assert.equal((await check()).retry_after, null);
  assert.equal((await row('SELECT rate_limit_unblock($1) AS was', ['block'])).was, true);
  assert.equal((await check()).allowed, true);
});

test('rate_limit_keys, reset, reset_prefix, prune', async () => {
  for (const name of ['reset', 'reset/1', 'reset/2']) {
    await db.query('SELECT rate_limit_check($1, $2, $3)', [name, 1, '1 hour']);
  }
  assert.deepEqual((await db.query("SELECT key, used, store FROM rate_limit_keys WHERE key LIKE 'reset%' ORDER BY key")).rows[0],
    { key: 'reset', used: 1, store: 'table' });
  assert.equal((await row('SELECT rate_limit_reset($1) AS n', ['reset'])).n, 1);
  assert.equal((await row('SELECT rate_limit_reset_prefix($1) AS n', ['reset/'])).n, 2);
  await db.query("UPDATE rate_limit_state SET expires_at = now() - interval '1 day'");
  assert.ok((await row('SELECT rate_limit_prune() AS n')).n > 0);
  assert.equal((await row('SELECT count(*)::int AS n FROM rate_limit_state')).n, 0);
});

test('policies: enforce, overrides, fallback, usage', async () => {
  const enforce = (policy, key, cost = 1) => row('SELECT * FROM rate_limit_enforce($1, $2, $3)', [policy, key, cost]);
  await db.exec(`INSERT INTO rate_limit_policies (policy, rule, "limit", "window", mode, is_fallback) VALUES
    ('free', 'minute', 2, '1 minute', 'enforce', true), ('free', 'day', 10, '1 day', 'enforce', false),
    ('free', 'new', 1, '1 day', 'shadow', false)`);
  await db.exec(`INSERT INTO rate_limit_overrides (key, network, "limit") VALUES ('user:vip', NULL, NULL), (NULL, '192.0.2.0/24', 1)`);
  const { allowed, limit, used, remaining, rule } = await enforce('unknown', 'user:1', 2);
  assert.deepEqual([allowed, limit, used, remaining, rule], [true, 2, 2, 0, 'minute']);
  assert.equal((await enforce('free', 'user:1')).allowed, false);
  assert.equal((await enforce('free', 'user:vip', 1000)).limit, null);
  assert.equal((await enforce('free', 'ip:::ffff:192.0.2.7', 2)).retry_after, null);
  assert.equal((await row('SELECT * FROM rate_limit_enforce_adjust($1, $2, $3)', ['free', 'user:1', -1])).used, 1);
  assert.deepEqual((await db.query('SELECT rule, used FROM rate_limit_usage($1, $2)', ['free', 'user:1'])).rows,
    [{ rule: 'day', used: 1 }, { rule: 'minute', used: 1 }, { rule: 'new', used: 0 }]);
  assert.deepEqual(await row("SELECT allowed, used FROM rate_limit_enforce_at('2024-01-01 12:00Z', 'free', 'user:2', 2)"),
    { allowed: true, used: 2 });
  for (const [columns, values] of [['"window"', "'1 month'"], ['"window"', "'infinity'"], ['"window", block_for', "'1 day', 'infinity'"]]) {
    await assert.rejects(db.query(`INSERT INTO rate_limit_policies (policy, ${columns}) VALUES ('bad', ${values})`),
      (err) => err.code === '22023');
  }
});

test('ip_key, headers, postgrest, trigger', async () => {
  assert.equal((await row("SELECT rate_limit_ip_key('::ffff:192.0.2.1') AS key")).key, '192.0.2.1');
  const { h } = await row("SELECT rate_limit_headers(r, '1 minute') AS h FROM rate_limit_check('headers', 2, '1 minute', 2) r");
  assert.deepEqual([h['X-RateLimit-Limit'], h['X-RateLimit-Remaining'], h['RateLimit-Policy']], ['2', '0', '"default";q=2;w=60']);
  assert.equal((await row("SELECT rate_limit_headers(r, 'infinity') ->> 'RateLimit-Policy' AS p FROM rate_limit_peek('headers', 2, '1 minute') r")).p,
    '"default";q=2');
  await db.exec(`INSERT INTO rate_limit_policies (policy, "limit", "window") VALUES ('once', 1, '1 hour')`);
  await db.transaction(async (tx) => {
    await tx.query("SELECT rate_limit_postgrest('once', 'postgrest')");
    const set = (await tx.query("SELECT current_setting('response.headers')::json AS headers")).rows[0].headers;
    assert.deepEqual(set.find((header) => 'RateLimit-Policy' in header), { 'RateLimit-Policy': '"default";q=1;w=3600' });
  });
  await assert.rejects(db.query("SELECT rate_limit_postgrest('once', 'postgrest')"), (err) => {
    const { status, headers } = JSON.parse(err.detail);
    assert.deepEqual([err.code, JSON.parse(err.message).code, status, headers['X-RateLimit-Remaining']], ['PGRST', 'RL429', 429, '0']);
    return true;
  });
  await db.exec(`CREATE TABLE posts (author text);
    CREATE TRIGGER limited BEFORE INSERT ON posts FOR EACH ROW EXECUTE FUNCTION rate_limit_trigger('once', 'author');
    INSERT INTO posts VALUES ('ann')`);
  await assert.rejects(db.query("INSERT INTO posts VALUES ('ann')"),
    (err) => err.code === 'RL429' && err.message === 'rate limit exceeded for key "ann"');
});

test('errors', async () => {
  const code = (code) => (err) => err.code === code;
  await assert.rejects(db.query("SELECT rate_limit_check(NULL, 1, '1 min')"), code('22004'));
  await assert.rejects(db.query("SELECT rate_limit_check('', 1, '1 min')"), code('22023'));
  await assert.rejects(db.query("SELECT rate_limit_check('k', 1, '1 min', store => 'memory')"), code('0A000'));
  await assert.rejects(db.query("SELECT rate_limit_check('k', 1, 'infinity')"), (err) =>
    err.code === '22023' && err.message === 'argument "window" must not contain months with algorithm "sliding_window"');
  await assert.rejects(db.query("SELECT rate_limit_block('k', 'infinity')"), code('22023'));
  await assert.rejects(db.query("SELECT rate_limit_block('k', '-infinity')"), (err) => /greater than zero/.test(err.message));
});
