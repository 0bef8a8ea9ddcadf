import assert from 'node:assert/strict'
import { CommandExitError, Sandbox } from 'e2b'
import { covers, shared } from './support.mjs'

const sandbox = shared(Sandbox)
const keys = (text) => new TextEncoder().encode(text)

/** A terminal and a function that gives all it showed, once its shell has ended. */
async function terminal(options = {}) {
  const shown = []
  const onData = (data) => void shown.push(data)
  const handle = await sandbox().pty.create({ cols: 101, rows: 33, onData, ...options })
  const ended = async () => {
    await handle.wait()
    return Buffer.concat(shown).toString()
  }
  return { handle, pid: handle.pid, ended, onData }
}

covers('Pty.create', 'Pty.sendInput')('a terminal is a shell of the right size', async () => {
  const { pid, ended } = await terminal({ cwd: '/tmp', envs: { NAME: 'glass' } })
  await sandbox().pty.sendInput(pid, keys('stty size; echo $TERM-$NAME-$PWD; exit\n'))
  const shown = await ended()
  assert(shown.includes('33 101') && shown.includes('xterm-256color-glass-/tmp'), shown)
})

covers('Pty.resize')('a terminal takes a new size', async () => {
  const { pid, ended } = await terminal()
  await sandbox().pty.resize(pid, { cols: 132, rows: 50 })
  await sandbox().pty.sendInput(pid, keys('stty size; exit\n'))
  assert((await ended()).includes('50 132'))
})

covers('Pty.connect')('a terminal keeps its state when it is met again', async () => {
  const { handle, pid } = await terminal()
  await sandbox().pty.sendInput(pid, keys('X=re; Y=membered\n'))
  await handle.disconnect()
  const shown = []
  const again = await sandbox().pty.connect(pid, { onData: (data) => void shown.push(data) })
  await sandbox().pty.sendInput(pid, keys('echo $X$Y; exit\n'))
  await again.wait()
  assert(Buffer.concat(shown).toString().includes('remembered'))
})

covers('Pty.kill')('a terminal can be killed once', async () => {
  const { handle, pid } = await terminal()
  assert.equal(await sandbox().pty.kill(pid), true)
  await assert.rejects(handle.wait(), CommandExitError)
  assert.equal(await sandbox().pty.kill(pid), false)
})
