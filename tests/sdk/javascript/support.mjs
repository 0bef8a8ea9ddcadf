// Sandboxes for the tests, and the record of which test covers which method.
import { after, before, test } from 'node:test'
import assert from 'node:assert/strict'
import { appendFileSync, readFileSync } from 'node:fs'
import { randomUUID } from 'node:crypto'
import { basename } from 'node:path'

function column(table, index) {
  const text = readFileSync(new URL(`../${table}`, import.meta.url), 'utf8')
  const lines = text.split('\n').filter((line) => line && !line.startsWith('#'))
  return new Set(lines.map((line) => line.split('\t')[index]))
}

/** Tests that cannot pass in the tier that is tested, by name, with the reason. */
function exceptions() {
  const lines = readFileSync(new URL('../tiers.tsv', import.meta.url), 'utf8').split('\n')
  const rows = lines.filter((line) => line && !line.startsWith('#')).map((line) => line.split('\t'))
  return new Map(rows.filter(([tiers]) => tiers.split(',').includes(process.env.SDK_TIER)).map((row) => row.slice(1)))
}

const excused = exceptions()

/** Passes if `body` fails, for that is what tiers.tsv says of it. */
async function failing(body, reason, context) {
  try {
    await body(context)
  } catch (error) {
    context.diagnostic(`not in ${process.env.SDK_TIER}: ${reason} (${error.message.split('\n')[0]})`)
    return
  }
  assert.fail(`tiers.tsv says that this cannot pass, and it did: ${reason}`)
}

const known = { covers: column('methods.tsv', 1), refuses: column('refused.tsv', 0) }

function recorder(kind) {
  return (...names) => {
    // A name that is not in the tables would silently cover nothing.
    for (const name of names) assert(known[kind].has(name), `unknown name ${name}`)
    return (title, body) =>
      test(title, async (context) => {
        let outcome = 'failed'
        const begin = performance.now()
        const name = `${basename(process.argv[1])}: ${title}`
        try {
          if (excused.has(name)) {
            outcome = 'excused'
            await failing(body, excused.get(name), context)
          } else {
            await body(context)
            outcome = 'passed'
          }
        } finally {
          const seconds = (performance.now() - begin) / 1000
          const record = { test: name, outcome, seconds, [kind]: names }
          if (process.env.SDK_OUTCOMES) appendFileSync(process.env.SDK_OUTCOMES, JSON.stringify(record) + '\n')
        }
      })
  }
}

/** covers('Commands.run')('says what must hold', async () => …) */
export const covers = recorder('covers')
export const refuses = recorder('refuses')

/** One sandbox for all tests of a file, behind a function because it does not exist yet. */
export function shared(Sandbox) {
  let sandbox
  before(async () => {
    sandbox = await Sandbox.create({ timeoutMs: 600_000 })
  })
  after(() => sandbox?.kill())
  return () => sandbox
}

/** Makes sandboxes that a test may pause, kill or fill, and ends them after the file. */
export function fresh(Sandbox) {
  const made = []
  after(() => Promise.all(made.map((sandbox) => sandbox.kill())))
  return async (...args) => {
    const options = typeof args.at(-1) === 'object' ? args.pop() : {}
    const sandbox = await Sandbox.create(...args, { timeoutMs: 300_000, ...options })
    made.push(sandbox)
    return sandbox
  }
}

export const unique = () => `sdk-${randomUUID().slice(0, 12)}`

/** Waits for a condition. The limit is only there to end a test that hangs. */
export async function until(condition, what = 'it', seconds = 60) {
  const deadline = Date.now() + seconds * 1000
  for (;;) {
    const value = await condition()
    if (value) return value
    assert(Date.now() < deadline, `${what} did not happen in time`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

export async function everything(paginator) {
  const items = []
  while (paginator.hasNext) items.push(...(await paginator.nextItems()))
  return items
}
