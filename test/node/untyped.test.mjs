// Every function resolves when a driver sends parameters without types, as
// node-postgres does.  The server is that of PGHOST, PGPORT, PGDATABASE, PGUSER.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import pg from 'pg';

const database = `untyped_${process.pid}`;
const admin = new pg.Client();
const client = new pg.Client({ database });

before(async () => {
  await admin.connect();
  await admin.query(`CREATE DATABASE ${database}`);
  await client.connect();
  await client.query('CREATE EXTENSION rate_limit');
});

after(async () => {
  await client.end();
  await admin.query(`DROP DATABASE ${database}`);
  await admin.end();
});

const forms = {
  parametrized: (text, values) => client.query(text, values),
  // the text is the name, so that a second call executes what the first has prepared
  prepared: (text, values) => client.query({ name: text.slice(0, 60), text, values }),
};

for (const [form, query] of Object.entries(forms)) {
  const row = async (text, ...values) => (await query(text, values)).rows[0];
  const key = (name) => `${form}:${name}`;
  const at = (second) => new Date(Date.UTC(2024, 0, 1, 12, 0, second));

  test(`check, ${form}`, async () => {
    const check = (limit) => row('SELECT * FROM rate_limit_check($1, $2, $3)', key('check'), limit, '1 hour');
    const first = await check(2);
    assert.deepEqual(Object.keys(first), ['allowed', 'limit', 'used', 'remaining', 'retry_after', 'reset_at', 'rule']);
    assert.deepEqual([first.allowed, first.limit, first.used, first.remaining], [true, '2', '1', '1']);
    assert.equal(first.retry_after, 0);
    assert.ok(first.reset_at > Date.now());
    assert.equal(first.rule, null);
    assert.equal((await check('2')).allowed, true);
    const refused = await check(2n);
    assert.equal(refused.allowed, false);
    assert.ok(refused.retry_after > 3500 && refused.retry_after <= 3600);
  });

  test(`check with every argument, ${form}`, async () => {
    const text = 'SELECT * FROM rate_limit_check($1, $2, $3, $4, $5, $6, $7, $8)';
    const bucket = await row(text, key('all'), 2, '1 hour', 3, 'token_bucket', 5, 'memory', null);
    assert.deepEqual([bucket.allowed, bucket.limit, bucket.used], [true, '5', '3']);
    const month = await row(text, key('all'), 9, '1 month', 4, 'fixed_window', null, null, 'Europe/Berlin');
    assert.deepEqual([month.allowed, month.limit, month.used], [true, '9', '4']);
  });

  test(`check with named arguments, ${form}`, async () => {
    const text = 'SELECT * FROM rate_limit_check($1, $2, $3, algorithm => $4, cost => $5)';
    assert.equal((await row(text, key('named'), 5, '1 hour', 'anchored_window', 3)).used, '3');
  });

  test(`allowed, ${form}`, async () => {
    const allowed = () => row('SELECT rate_limit_allowed($1, $2, $3) AS ok', key('allowed'), 1, '1 hour');
    assert.deepEqual([(await allowed()).ok, (await allowed()).ok], [true, false]);
  });

  test(`require, ${form}`, async () => {
    const require = (cost) => query('SELECT rate_limit_require($1, $2, $3, $4)', [key('require'), 2, '1 hour', cost]);
    await require(2);
    await assert.rejects(require(1), (err) => {
      assert.equal(err.code, 'RL429');
      assert.equal(err.message, `rate limit exceeded for key "${key('require')}"`);
      const result = JSON.parse(err.detail);
      assert.deepEqual([result.allowed, result.limit, result.used, result.remaining], [false, 2, 2, 0]);
      assert.equal(Number(err.hint.match(/^Retry in ([\d.]+) seconds\.$/)[1]), result.retry_after);
      return true;
    });
    await assert.rejects(require(3), (err) => err.code === 'RL429' && JSON.parse(err.detail).retry_after === null);
  });

  test(`peek, ${form}`, async () => {
    const text = 'SELECT * FROM rate_limit_peek($1, $2, $3, $4)';
    assert.equal((await row(text, key('peek'), 2, '1 hour', 2)).allowed, true);
    assert.equal((await row(text, key('peek'), 2, '1 hour', 2)).used, '0');
  });

  test(`adjust, ${form}`, async () => {
    const text = 'SELECT * FROM rate_limit_adjust($1, $2, $3, $4)';
    assert.equal((await row(text, key('adjust'), 2, '1 hour', 5)).used, '5');
    assert.equal((await row(text, key('adjust'), 2, '1 hour', -4)).used, '1');
  });

  test(`check_all with arrays, ${form}`, async () => {
    const keys = [key('minute'), key('day, "with" quotes')];
    const check = async (costs) =>
      (await query('SELECT * FROM rate_limit_check_all($1, $2, $3, $4, $5)',
        [keys, [2, 3], ['1 minute', '1 day'], costs, 'sliding_window'])).rows;
    const brief = (rows) => rows.map((r) => [r.ord, r.key, r.allowed, r.used]);
    assert.deepEqual(brief(await check([1, 3])), [[1, keys[0], true, '1'], [2, keys[1], true, '3']]);
    assert.deepEqual(brief(await check(null)), [[1, keys[0], true, '1'], [2, keys[1], false, '3']]);
    const { rows } = await query('SELECT * FROM rate_limit_check_all($1, $2, $3)', [[key('short')], [1], ['1 day']]);
    assert.deepEqual(brief(rows), [[1, key('short'), true, '1']]);
  });

  test(`check_at, peek_at and adjust_at, ${form}`, async () => {
    const check = (second) =>
      row('SELECT * FROM rate_limit_check_at($1, $2, $3, $4)', at(second), key('at'), 1, '10 seconds');
    assert.equal((await check(0)).allowed, true);
    assert.equal((await check(4)).retry_after, 6);
    const peeked = await row('SELECT * FROM rate_limit_peek_at($1, $2, $3, $4)', at(10), key('at'), 1, '10 seconds');
    assert.deepEqual([peeked.allowed, peeked.used], [true, '0']);
    const adjusted =
      await row('SELECT * FROM rate_limit_adjust_at($1, $2, $3, $4, $5)', at(5), key('at'), 1, '10 seconds', 2);
    assert.deepEqual([adjusted.used, adjusted.reset_at], ['3', at(10)]);
  });

  test(`reset and reset_prefix, ${form}`, async () => {
    for (const name of ['reset', 'reset/1', 'reset/2']) {
      await query('SELECT rate_limit_check($1, $2, $3)', [key(name), 1, '1 hour']);
    }
    assert.equal((await row('SELECT rate_limit_reset($1) AS n', key('reset'))).n, '1');
    assert.equal((await row('SELECT rate_limit_reset_prefix($1) AS n', key('reset/'))).n, '2');
  });

  test(`block and unblock, ${form}`, async () => {
    const check = () => row('SELECT * FROM rate_limit_check($1, $2, $3)', key('block'), 1, '1 hour');
    await query('SELECT rate_limit_block($1, $2, $3)', [key('block'), '1 hour', 'abuse']);
    assert.equal((await check()).rule, 'block');
    await query('SELECT rate_limit_block($1, $2)', [key('block'), null]);
    assert.equal((await check()).retry_after, null);
    assert.equal((await row('SELECT rate_limit_unblock($1) AS was', key('block'))).was, true);
    assert.equal((await check()).allowed, true);
  });

  test(`a batch over unnest, ${form}`, async () => {
    const keys = ['a', 'b', 'a'].map(key);
    const { rows } =
      await query("SELECT k, r.* FROM unnest($1::text[]) k, rate_limit_check(k, 20, '1 minute') r", [keys]);
    assert.deepEqual(rows.map((r) => [r.k, r.used]), [[keys[0], '1'], [keys[1], '1'], [keys[2], '2']]);
  });
}
