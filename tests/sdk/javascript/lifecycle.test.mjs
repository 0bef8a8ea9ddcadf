import assert from 'node:assert/strict'
import { AuthenticationError, NotFoundError, Sandbox, SandboxError, SandboxNotFoundError } from 'e2b'
import { covers, everything, fresh, unique, until } from './support.mjs'

const create = fresh(Sandbox)

covers('Sandbox.create', 'Sandbox.getInfo', 'Sandbox.isRunning', 'Sandbox.kill')('a sandbox lives from create to kill', async () => {
  const before = Date.now()
  const sandbox = await create({ timeoutMs: 90_000, metadata: { purpose: 'life' } })
  const making = Date.now() - before
  const info = await sandbox.getInfo()
  assert.deepEqual([info.sandboxId, info.state, info.metadata], [sandbox.sandboxId, 'running', { purpose: 'life' }])
  const life = info.endAt - info.startedAt
  assert(life > 89_000 && life < 91_000 + making, `${life}`)
  assert.equal(await sandbox.isRunning(), true)
  assert.equal(await sandbox.kill(), true)
  assert.equal(await sandbox.isRunning(), false)
  assert.equal(await sandbox.kill(), false)
  await assert.rejects(sandbox.getInfo(), SandboxNotFoundError)
})

covers('Sandbox.create')('what cannot be made is an error with a reason', async () => {
  await assert.rejects(Sandbox.create('no-such-template'), (error) => error instanceof SandboxError && /no-such-template/.test(error.message))
  await assert.rejects(Sandbox.create({ apiKey: `e2b_${'0'.repeat(40)}` }), AuthenticationError)
})

covers('Sandbox.kill')('a kill ends what runs', async () => {
  const sandbox = await create()
  const handle = await sandbox.commands.run('sleep 60', { background: true })
  await sandbox.kill()
  await assert.rejects(handle.wait(), SandboxError)
  await assert.rejects(sandbox.commands.run('true'), SandboxError)
})

covers('Sandbox.connect')('another client meets the same sandbox', async () => {
  const sandbox = await create()
  await sandbox.files.write('note', 'left behind')
  const other = await Sandbox.connect(sandbox.sandboxId)
  assert.equal(await other.files.read('note'), 'left behind')
  const end = (await sandbox.getInfo()).endAt
  await sandbox.connect({ timeoutMs: 5_000 })
  assert((await sandbox.getInfo()).endAt >= end)
  await assert.rejects(Sandbox.connect('nosuchsandbox'), NotFoundError)
})

covers('Sandbox.setTimeout')('a timeout can grow and shrink and then ends the sandbox', async () => {
  const sandbox = await create()
  const before = Date.now()
  await sandbox.setTimeout(300_000)
  const after = Date.now()
  const end = (await sandbox.getInfo()).endAt.getTime()
  assert(end > before + 299_000 && end < after + 301_000)
  await sandbox.setTimeout(1_000)
  await until(async () => !(await sandbox.isRunning()), 'the end')
})

covers('Sandbox.pause', 'Sandbox.connect')('a paused sandbox comes back with its files', async () => {
  const sandbox = await create()
  await sandbox.files.write('note', 'kept')
  assert.equal(await sandbox.pause(), true)
  assert.equal((await sandbox.getInfo()).state, 'paused')
  assert.equal(await sandbox.pause(), false)
  const again = await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 60_000 })
  assert.equal(await again.files.read('note'), 'kept')
  await assert.rejects(Sandbox.pause('nosuchsandbox'), SandboxNotFoundError)
})

covers('Sandbox.betaPause')('the old name of pause still pauses, also without memory', async () => {
  const sandbox = await create()
  await sandbox.files.write('note', 'kept')
  assert.equal(await sandbox.betaPause({ keepMemory: false }), true)
  assert.equal((await sandbox.getInfo()).state, 'paused')
  await sandbox.connect()
  assert.equal(await sandbox.files.read('note'), 'kept')
})

covers('Sandbox.create')('a sandbox can be paused by its timeout', async () => {
  const sandbox = await create({ timeoutMs: 1_000, lifecycle: { onTimeout: 'pause' } })
  await until(async () => (await sandbox.getInfo()).state === 'paused', 'the pause')
})

covers('Sandbox.list', 'SandboxPaginator.nextItems')('sandboxes are found by metadata and state, in pages', async () => {
  const metadata = { 'run id': `${unique()} &=ü` }
  const made = []
  for (let n = 0; n < 3; n++) made.push((await create({ metadata })).sandboxId)
  await Sandbox.pause(made[2])
  const found = async (query) =>
    (await everything(Sandbox.list({ query: { metadata, ...query } }))).map((info) => info.sandboxId)
  assert.deepEqual(await found(), made.toReversed())
  assert.deepEqual(await found({ state: ['paused'] }), [made[2]])
  assert.deepEqual(await found({ state: ['running', 'paused'] }), made.toReversed())
  assert.deepEqual(await found({ template: 'nosuchtemplate' }), [])
  const pages = Sandbox.list({ query: { metadata }, limit: 2, order: 'asc' })
  assert.deepEqual((await pages.nextItems()).map((info) => info.sandboxId), made.slice(0, 2))
  assert.equal(pages.hasNext, true)
  assert.deepEqual((await pages.nextItems()).map((info) => info.sandboxId), made.slice(2))
  assert.equal(pages.hasNext, false)
})

covers('Sandbox.getMetrics')('metrics tell what a sandbox uses', async () => {
  const sandbox = await create()
  await sandbox.commands.run('head -c 20000000 /dev/urandom > ~/ballast')
  const metric = await until(async () => (await sandbox.getMetrics()).findLast((each) => each.diskUsed >= 20_000_000), 'the disk')
  assert(metric.cpuCount >= 1 && metric.cpuUsedPct >= 0 && metric.memUsed > 0 && metric.memUsed <= metric.memTotal)
  assert(metric.diskUsed <= metric.diskTotal && Math.abs(Date.now() - metric.timestamp) < 30_000)
})
