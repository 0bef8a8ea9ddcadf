// E2B's own command line, unmodified.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { promisify } from 'node:util'
import { Sandbox } from 'e2b'
import { covers, fresh, until } from './support.mjs'

const create = fresh(Sandbox)
const run = promisify(execFile)

// It keeps its settings in the home directory.
const home = mkdtempSync(join(tmpdir(), 'sdk-cli-'))
after(() => rmSync(home, { recursive: true }))

async function cli(...args) {
  const env = { ...process.env, HOME: home, NO_COLOR: '1' }
  const running = run(process.env.SDK_CLI, args, { env })
  // Some commands read it to its end.
  running.child.stdin.end()
  return (await running).stdout
}

async function logs(id, ...options) {
  const said = await cli('sandbox', 'logs', id, '--format', 'json', ...options)
  return said.split('\n').filter((line) => line.startsWith('{')).map((line) => JSON.parse(line))
}

covers()('the command line shows what happened in a sandbox', async () => {
  const box = await create()
  const handle = await box.commands.run('sleep 0.2; exit 3', { background: true })
  const lines = await until(async () => {
    const all = await logs(box.sandboxId)
    return all.some((line) => line.message === 'process_ended') && all
  }, 'the end of a process in the log')
  assert.equal(lines[0].message, 'created')
  const told = lines.filter((line) => line.logger === 'process')
  assert.deepEqual(told.map((line) => [line.level, line.message]), [['info', 'process_started'], ['info', 'process_ended']])
  assert.match(told[0].detail, new RegExp(`^pid ${handle.pid}: /bin/bash$`))
  assert.equal(told[1].detail, `pid ${handle.pid}: exit status 3`)
  assert(lines.every((line) => Math.abs(Date.now() - Date.parse(line.timestamp)) < 600_000))
})

covers()('the command line filters a log by part and by level', async () => {
  const box = await create()
  await box.commands.run('true')
  const parts = async (...options) => new Set((await logs(box.sandboxId, ...options)).map((line) => line.logger))
  assert.deepEqual(await parts('--loggers', 'process'), new Set(['process']))
  assert.deepEqual(await parts(), new Set(['sandbox', 'process']))
  assert.deepEqual(await parts('--level', 'ERROR'), new Set())
})

covers()('the command line follows a log to the end of its sandbox', async () => {
  const box = await create()
  const following = cli('sandbox', 'logs', box.sandboxId, '--follow')
  await box.commands.run('true')
  await box.kill()
  if (process.env.SDK_CLUSTER) {
    // A platform knows no log of a sandbox that is gone.
    await following.catch((error) => assert.match(error.stderr, /not found/))
    return
  }
  assert.match(await following, /sandbox is .*closed/)
  const [first, ...others] = await logs(box.sandboxId)
  assert.deepEqual([first.message, others.at(-1).message, others.at(-1).detail], ['created', 'ended', 'killed'])
})

covers()('the command line lists a sandbox, runs a command in it and kills it', async () => {
  const box = await create({ metadata: { cli: 'listed' } })
  const listed = JSON.parse(await cli('sandbox', 'list', '--format', 'json', '--metadata', 'cli=listed'))
  assert.deepEqual(listed.map((entry) => entry.sandboxId), [box.sandboxId])
  assert.match(await cli('sandbox', 'exec', box.sandboxId, 'echo', 'from inside'), /from inside/)
  await cli('sandbox', 'kill', box.sandboxId)
  assert.equal(await box.isRunning(), false)
})
