import assert from 'node:assert/strict'
import { FileNotFoundError, FilesystemEventType as Event, InvalidArgumentError, Sandbox } from 'e2b'
import { covers, shared, unique, until } from './support.mjs'

const sandbox = shared(Sandbox)

covers('Filesystem.watchDir', 'WatchHandle.stop')('every kind of change is seen until the watch is stopped', async () => {
  const at = `/home/user/${unique()}`
  await sandbox().files.write(`${at}/there`, 'x')
  const seen = []
  const handle = await sandbox().files.watchDir(at, (event) => void seen.push(`${event.name} ${event.type}`))
  await sandbox().files.write(`${at}/new`, 'x')
  await sandbox().commands.run(`cd ${at}; echo y >> there; chmod 600 there; mv there gone; rm new`)
  const wanted = [
    `new ${Event.CREATE}`, `new ${Event.WRITE}`, `there ${Event.WRITE}`, `there ${Event.CHMOD}`,
    `there ${Event.RENAME}`, `gone ${Event.CREATE}`, `new ${Event.REMOVE}`,
  ]
  await until(() => wanted.every((event) => seen.includes(event)), `all of ${wanted} in ${seen}`)
  await handle.stop()
  const count = seen.length
  await sandbox().files.write(`${at}/after`, 'x')
  await new Promise((resolve) => setTimeout(resolve, 500))
  assert.equal(seen.length, count)
})

covers('Filesystem.watchDir')('a recursive watch sees below and can bring the entry', async () => {
  const at = `/home/user/${unique()}`
  await sandbox().files.makeDir(`${at}/sub`)
  const flat = []
  const deep = []
  const handles = [
    await sandbox().files.watchDir(at, (event) => void flat.push(event)),
    await sandbox().files.watchDir(at, (event) => void deep.push(event), { recursive: true, includeEntry: true }),
  ]
  await sandbox().files.write(`${at}/sub/file`, '12345')
  await sandbox().files.makeDir(`${at}/later`)
  await until(() => flat.some((event) => event.name === 'later'), 'the outer event')
  const write = await until(() => deep.find((event) => event.name === 'sub/file' && event.type === Event.WRITE), 'the inner event')
  assert.equal(write.entry.path, `${at}/sub/file`)
  assert(flat.every((event) => !event.name.includes('/')))
  for (const handle of handles) await handle.stop()
})

covers('Filesystem.watchDir')('only directories that exist can be watched', async () => {
  const at = `/home/user/${unique()}`
  await sandbox().files.write(`${at}/file`, 'x')
  await assert.rejects(sandbox().files.watchDir(`${at}/missing`, () => {}), FileNotFoundError)
  await assert.rejects(sandbox().files.watchDir(`${at}/file`, () => {}), InvalidArgumentError)
})
