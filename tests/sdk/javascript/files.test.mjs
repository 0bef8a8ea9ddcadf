import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { FileNotFoundError, FileType, InvalidArgumentError, Sandbox } from 'e2b'
import { covers, shared, unique } from './support.mjs'

const sandbox = shared(Sandbox)
const files = () => sandbox().files
const place = () => `/home/user/${unique()}`

covers('Filesystem.write', 'Filesystem.read')('text comes back as it went', async () => {
  const at = place()
  const info = await files().write(`${at}/text.txt`, 'grüße\n日本語 🦀\n')
  assert.deepEqual([info.name, info.path, info.type], ['text.txt', `${at}/text.txt`, FileType.FILE])
  assert.equal(await files().read(info.path), 'grüße\n日本語 🦀\n')
})

covers('Filesystem.write', 'Filesystem.read')('bytes come back as they went, in every format', async () => {
  const data = randomBytes(3 << 20)
  for (const options of [{}, { gzip: true }, { useOctetStream: true }]) {
    const path = `${place()}/blob`
    await files().write(path, new Blob([data]), options)
    assert(data.equals(await files().read(path, { format: 'bytes' })))
    assert(data.equals(Buffer.from(await (await files().read(path, { format: 'blob' })).arrayBuffer())))
    const pieces = []
    for await (const piece of await files().read(path, { format: 'stream' })) pieces.push(piece)
    assert(data.equals(Buffer.concat(pieces)))
  }
})

covers('Filesystem.write')('streams can be written', async () => {
  const path = `${place()}/stream`
  const stream = new Blob(['one ', 'two']).stream()
  await files().write(path, stream)
  assert.equal(await files().read(path), 'one two')
})

covers('Filesystem.read')('an empty file is empty and a missing one is missing', async () => {
  const at = place()
  await files().write(`${at}/empty`, '')
  assert.equal(await files().read(`${at}/empty`), '')
  assert.equal((await files().read(`${at}/empty`, { format: 'bytes' })).length, 0)
  await assert.rejects(files().read(`${at}/missing`), FileNotFoundError)
  await assert.rejects(files().read(at), InvalidArgumentError)
})

covers('Filesystem.writeFiles', 'Filesystem.write')('several files go in one call', async () => {
  const at = place()
  const wanted = ['a', 'b b', 'c"d', 'ü'].map((name) => ({ path: `${at}/${name}`, data: name.repeat(3) }))
  const written = await files().writeFiles(wanted)
  assert.deepEqual(written.map((info) => info.path), wanted.map((file) => file.path))
  for (const file of wanted) assert.equal(await files().read(file.path), file.data)
  const again = await files().write(wanted.map((file) => ({ ...file, data: 'again' })))
  assert.equal(again.length, 4)
  assert.equal(await files().read(wanted[1].path), 'again')
})

covers('Filesystem.list')('a listing goes as deep as asked', async () => {
  const at = place()
  await files().writeFiles(['top', 'in/mid', 'in/in/low'].map((path) => ({ path: `${at}/${path}`, data: 'x' })))
  const paths = async (options) => (await files().list(at, options)).map((entry) => entry.path.slice(at.length)).sort()
  assert.deepEqual(await paths(), ['/in', '/top'])
  assert.deepEqual(await paths({ depth: 3 }), ['/in', '/in/in', '/in/in/low', '/in/mid', '/top'])
  await assert.rejects(files().list(`${at}/missing`), FileNotFoundError)
  await assert.rejects(files().list(`${at}/top`), InvalidArgumentError)
})

covers('Filesystem.getInfo')('an entry is described as it is', async () => {
  const at = place()
  await files().write(`${at}/script.sh`, 'echo hi\n')
  await sandbox().commands.run(`chmod 750 ${at}/script.sh; ln -s script.sh ${at}/link`)
  const entry = await files().getInfo(`${at}/script.sh`)
  assert.deepEqual(
    [entry.name, entry.type, entry.size, entry.mode, entry.permissions, entry.owner, entry.group],
    ['script.sh', FileType.FILE, 8, 0o750, '-rwxr-x---', 'user', 'user']
  )
  assert(Math.abs(Date.now() - entry.modifiedTime) < 60_000)
  assert.equal((await files().getInfo(`${at}/link`)).symlinkTarget, `${at}/script.sh`)
  assert.equal((await files().getInfo(at)).type, FileType.DIR)
  await assert.rejects(files().getInfo(`${at}/missing`), FileNotFoundError)
})

covers('Filesystem.write', 'Filesystem.getInfo')('metadata stays with a file until it is replaced', async () => {
  const path = `${place()}/tagged`
  await files().write(path, 'x', { metadata: { origin: 'upload', stage: 'raw' } })
  assert.deepEqual({ ...(await files().getInfo(path)).metadata }, { origin: 'upload', stage: 'raw' })
  await files().write(path, 'y', { metadata: { stage: 'clean' } })
  assert.deepEqual({ ...(await files().getInfo(path)).metadata }, { stage: 'clean' })
})

covers('Filesystem.exists', 'Filesystem.makeDir')('a directory is made once and then exists', async () => {
  const at = place()
  assert.equal(await files().exists(`${at}/x/y`), false)
  assert.equal(await files().makeDir(`${at}/x/y`), true)
  assert.equal(await files().makeDir(`${at}/x/y`), false)
  assert.equal(await files().exists(`${at}/x/y`), true)
})

covers('Filesystem.remove')('removing takes whole trees and only them', async () => {
  const at = place()
  await files().writeFiles(['tree/a/b', 'tree/c', 'keep'].map((path) => ({ path: `${at}/${path}`, data: 'x' })))
  await files().remove(`${at}/tree`)
  assert.deepEqual((await files().list(at)).map((entry) => entry.name), ['keep'])
})

covers('Filesystem.rename')('renaming moves content', async () => {
  const at = place()
  await files().write(`${at}/old`, 'content')
  const entry = await files().rename(`${at}/old`, `${at}/sub/new`)
  assert.equal(entry.path, `${at}/sub/new`)
  assert.equal(await files().read(entry.path), 'content')
  assert.equal(await files().exists(`${at}/old`), false)
  await assert.rejects(files().rename(`${at}/missing`, `${at}/x`), FileNotFoundError)
})
