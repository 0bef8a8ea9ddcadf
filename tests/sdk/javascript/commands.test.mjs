import assert from 'node:assert/strict'
import { CommandExitError, InvalidArgumentError, NotFoundError, Sandbox, TimeoutError } from 'e2b'
import { covers, fresh, shared, unique, until } from './support.mjs'

const sandbox = shared(Sandbox)
const create = fresh(Sandbox)

covers('Commands.run')('a command gives both streams and its code', async () => {
  const result = await sandbox().commands.run('echo out; echo err >&2')
  assert.deepEqual([result.stdout, result.stderr, result.exitCode], ['out\n', 'err\n', 0])
})

covers('Commands.run')('a failing command throws with everything it said', async () => {
  await assert.rejects(sandbox().commands.run('echo before; echo why >&2; exit 7'), (error) => {
    assert(error instanceof CommandExitError)
    assert.deepEqual([error.exitCode, error.stdout, error.stderr], [7, 'before\n', 'why\n'])
    return true
  })
})

covers('Commands.run')('environment, directory and characters are as asked', async () => {
  const text = 'grüße \u2028 日本語 🦀'
  const options = { envs: { TEXT: text }, cwd: '/tmp', user: 'user' }
  const { stdout } = await sandbox().commands.run('printf "%s\\n" "$TEXT" $(pwd) $(id -un) $HOME', options)
  assert.equal(stdout, `${text}\n/tmp\nuser\n/home/user\n`)
  await assert.rejects(sandbox().commands.run('true', { cwd: '/nowhere' }), InvalidArgumentError)
})

covers('Commands.run')('variables of the sandbox reach commands and give way to theirs', async () => {
  const box = await create({ envs: { COLOUR: 'red', SHAPE: 'round' } })
  const { stdout } = await box.commands.run('echo $COLOUR $SHAPE', { envs: { SHAPE: 'flat' } })
  assert.equal(stdout, 'red flat\n')
})

covers('Commands.run', 'CommandHandle.wait')('output streams while the command runs', async () => {
  const seen = []
  const heard = `/tmp/${unique()}`
  // It goes on only when its first line was heard.
  const handle = await sandbox().commands.run(`echo one; until [ -e ${heard} ]; do sleep 0.02; done; echo two`, {
    background: true,
    onStdout: async (text) => {
      seen.push(text)
      await sandbox().files.write(heard, '')
    },
  })
  await handle.wait()
  assert.equal(seen.join(''), 'one\ntwo\n')
})

covers('Commands.run')('a command that takes too long times out', async () => {
  await assert.rejects(sandbox().commands.run('sleep 600', { timeoutMs: 1000 }), TimeoutError)
})

covers('Commands.run', 'Commands.list', 'Commands.kill')('a running command is listed until it is killed', async () => {
  const handle = await sandbox().commands.run('sleep 60', { background: true })
  const pids = async () => (await sandbox().commands.list()).map((process) => process.pid)
  const entry = (await sandbox().commands.list()).find((process) => process.pid === handle.pid)
  assert.deepEqual([entry.cmd, entry.args.at(-1)], ['/bin/bash', 'sleep 60'])
  assert.equal(await sandbox().commands.kill(handle.pid), true)
  await assert.rejects(handle.wait(), CommandExitError)
  await until(async () => !(await pids()).includes(handle.pid))
  assert.equal(await sandbox().commands.kill(999_999), false)
})

covers('CommandHandle.kill')('a handle kills its command', async () => {
  const handle = await sandbox().commands.run('sleep 60', { background: true })
  assert.equal(await handle.kill(), true)
  await assert.rejects(handle.wait(), CommandExitError)
})

covers('Commands.connect', 'CommandHandle.disconnect')('a command survives a disconnect and can be met again', async () => {
  const met = `/tmp/${unique()}`
  const handle = await sandbox().commands.run(`until [ -e ${met} ]; do sleep 0.02; done; echo still here`, { background: true })
  await handle.disconnect()
  const again = await sandbox().commands.connect(handle.pid)
  await sandbox().files.write(met, '')
  assert.equal((await again.wait()).stdout, 'still here\n')
  await assert.rejects(sandbox().commands.connect(999_999), NotFoundError)
})

covers('Commands.sendStdin', 'Commands.closeStdin')('input reaches a command and its end too', async () => {
  const handle = await sandbox().commands.run('cat; echo end', { background: true, stdin: true })
  await sandbox().commands.sendStdin(handle.pid, 'one\n')
  await sandbox().commands.sendStdin(handle.pid, new TextEncoder().encode('two\n'))
  await sandbox().commands.closeStdin(handle.pid)
  assert.equal((await handle.wait()).stdout, 'one\ntwo\nend\n')
})

covers('CommandHandle.sendStdin', 'CommandHandle.closeStdin')('a handle sends input too', async () => {
  const handle = await sandbox().commands.run('wc -c', { background: true, stdin: true })
  await handle.sendStdin('12345')
  await handle.closeStdin()
  assert.equal((await handle.wait()).stdout.trim(), '5')
})

covers('Commands.run')('twenty commands run at once', async () => {
  const numbers = [...Array(20).keys()]
  const results = await Promise.all(numbers.map((n) => sandbox().commands.run(`sleep 0.3; echo ${n}`)))
  assert.deepEqual(results.map((result) => result.stdout), numbers.map((n) => `${n}\n`))
})
