// POST /chat and POST /embeddings with {"input": "…"} and Authorization: Bearer KEY.
//
// Before every turn the database is asked whether it may be made, and reserves the tokens
// that it can use at most; afterwards it is told how many it has used.  Between the two no
// transaction is open and no connection is held.  Without the database nothing passes.

const longestBody = 100_000

export function createEndpoint({ pool, model, maxTurns = 8, maxTokens = 500 }) {
  // Resolves to null if nobody has the key.
  async function reserve(apiKey, feature, tokens, requests) {
    const { rows } = await pool.query('SELECT * FROM llm_reserve($1, $2, $3, $4)', [apiKey, feature, tokens, requests])
    return rows[0] ?? null
  }

  // If this fails the reservation stays: too much is counted then, never too little.
  async function settle({ user_id, month_ends }, delta) {
    try {
      const { rows } = await pool.query('SELECT * FROM llm_settle($1, $2, $3)', [user_id, delta, month_ends])
      return rows[0] && usage(rows[0], month_ends)
    } catch (err) {
      console.error('not settled:', { user_id, delta }, err.message)
    }
  }

  // A turn that fails is given back.  Take "tokens" for it if your provider bills it.
  async function makeTurn(reservation, tokens, turn) {
    let used = 0
    try {
      const answer = await turn()
      used = answer.tokens
      return { answer, month: await settle(reservation, used - tokens) }
    } catch (err) {
      await settle(reservation, used - tokens)
      throw err
    }
  }

  // The agent's loop: as many turns as the model wants, each of them within the limits.
  async function chat(apiKey, input) {
    const messages = [{ role: 'user', content: input }]
    let headers, month
    for (let turn = 0; turn < maxTurns; turn++) {
      const tokens = model.countTokens(messages) + maxTokens
      const reservation = await reserve(apiKey, 'chat', tokens, turn === 0 ? 1 : 0)
      if (!reservation?.allowed) return refusal(reservation, { messages: messages.slice(1) })
      headers ??= reservation.headers
      const made = await makeTurn(reservation, tokens, () => model.chat({ messages, maxTokens }))
      month = made.month
      messages.push(...made.answer.messages)
      if (made.answer.done) break
    }
    return { status: 200, headers, body: { messages: messages.slice(1), month } }
  }

  async function embeddings(apiKey, input) {
    const tokens = model.countTokens([{ content: input }])
    const reservation = await reserve(apiKey, 'embeddings', tokens, 1)
    if (!reservation?.allowed) return refusal(reservation)
    const { answer, month } = await makeTurn(reservation, tokens, () => model.embed({ input }))
    return { status: 200, headers: reservation.headers, body: { embedding: answer.embedding, month } }
  }

  const features = { '/chat': chat, '/embeddings': embeddings }

  async function answer(req) {
    const feature = Object.hasOwn(features, req.url) && features[req.url]
    if (!feature || req.method !== 'POST') return { status: 404, body: { error: 'no such feature' } }
    const apiKey = /^Bearer (\S+)$/.exec(req.headers.authorization ?? '')?.[1]
    if (!apiKey) return refusal(null)
    const input = await readInput(req)
    if (input === null) return { status: 400, body: { error: 'a JSON object with the text "input" is wanted' } }
    return feature(apiKey, input)
  }

  return async (req, res) => {
    let reply
    try {
      reply = await answer(req)
    } catch (err) {
      console.error(err.message)
      reply = { status: 503, headers: { 'Retry-After': '1' }, body: { error: 'try again' } }
    }
    res.writeHead(reply.status, { 'Content-Type': 'application/json', ...reply.headers })
    res.end(JSON.stringify(reply.body))
  }
}

function refusal(reservation, rest) {
  if (!reservation) return { status: 401, headers: { 'WWW-Authenticate': 'Bearer' }, body: { error: 'unknown key' } }
  const { rule, headers } = reservation
  return { status: 429, headers, body: { error: 'rate limit exceeded', rule, ...rest } }
}

// node-postgres gives bigint as text.
function usage({ used, included, overage }, month_ends) {
  return { used: Number(used), included: Number(included), overage: Number(overage), resets_at: month_ends }
}

async function readInput(req) {
  let text = ''
  for await (const chunk of req.setEncoding('utf8')) {
    if (text.length <= longestBody) text += chunk
  }
  if (text.length > longestBody) return null
  try {
    const { input } = JSON.parse(text)
    return typeof input === 'string' ? input : null
  } catch {
    return null
  }
}
