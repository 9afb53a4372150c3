// Starts the endpoint on PORT (3000), with the database of the PG… variables.

import { createServer } from 'node:http'
import pg from 'pg'
import { createEndpoint } from './endpoint.mjs'
import * as model from './model.mjs'

// a database that is away is noticed within a second
const pool = new pg.Pool({ connectionTimeoutMillis: 1000, query_timeout: 1000, statement_timeout: 1000 })
pool.on('error', (err) => console.error(err.message))

const server = createServer(createEndpoint({ pool, model }))
server.listen(process.env.PORT ?? 3000, () => console.log(`listening on port ${server.address().port}`))
