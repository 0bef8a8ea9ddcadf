import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before } from 'node:test'
import { Sandbox, SandboxError, Volume, VolumeError } from 'e2b'
import { covers, refuses, unique } from './support.mjs'

const name = unique()
let volume
before(async () => {
  volume = await Volume.create(name)
})
after(() => Volume.destroy(volume.volumeId))

covers('Volume.create', 'Volume.connect', 'Volume.getInfo (class)', 'Volume.list (class)', 'Volume.destroy')(
  'a volume is made, found and destroyed',
  async () => {
    const other = await Volume.create(unique())
    assert.equal((await Volume.getInfo(other.volumeId)).name, other.name)
    assert((await Volume.list()).some((info) => info.volumeId === other.volumeId && info.name === other.name))
    await other.writeFile('/note', 'x')
    assert.equal(await (await Volume.connect(other.volumeId)).readFile('/note'), 'x')
    assert.equal(await Volume.destroy(other.volumeId), true)
    assert.equal(await Volume.destroy(other.volumeId), false)
    await assert.rejects(Volume.connect(other.volumeId), VolumeError)
    await assert.rejects(Volume.create(name), VolumeError)
  }
)

covers('Volume.writeFile', 'Volume.readFile')('content comes back in every format', async () => {
  const data = randomBytes(2 << 20)
  const stat = await volume.writeFile('/deep/blob', new Blob([data]), { mode: 0o640 })
  assert.deepEqual([stat.path, stat.size, stat.mode & 0o777, stat.type], ['/deep/blob', data.length, 0o640, 'file'])
  assert(data.equals(await volume.readFile('/deep/blob', { format: 'bytes' })))
  await volume.writeFile('/text', 'grüße')
  assert.equal(await volume.readFile('/text'), 'grüße')
  await assert.rejects(volume.readFile('/missing'), VolumeError)
})

covers(
  'Volume.makeDir', 'Volume.list (instance)', 'Volume.exists', 'Volume.getInfo (instance)', 'Volume.remove',
  'Volume.updateMetadata'
)('directories can be made, listed, changed and removed', async () => {
  await volume.makeDir('/a')
  await volume.makeDir('/a/b/c', { force: true })
  await volume.writeFile('/a/file', '12345')
  assert.deepEqual((await volume.list('/a')).map((stat) => stat.path).sort(), ['/a/b', '/a/file'])
  assert.deepEqual((await volume.list('/a', { depth: 2 })).map((stat) => stat.path).sort(), ['/a/b', '/a/b/c', '/a/file'])
  assert.equal((await volume.getInfo('/a/file')).size, 5)
  const changed = await volume.updateMetadata('/a/file', { mode: 0o600, uid: 1000 })
  assert.deepEqual([changed.mode & 0o777, changed.uid], [0o600, 1000])
  assert.deepEqual([await volume.exists('/a/b'), await volume.exists('/a/x')], [true, false])
  await volume.remove('/a')
  assert.equal(await volume.exists('/a'), false)
})

refuses('Sandbox.create(volume_mounts=)')('mounting a volume is refused', () =>
  assert.rejects(Sandbox.create({ volumeMounts: { '/mnt/data': volume } }), (error) => {
    assert(error instanceof SandboxError && /volume/i.test(error.message), error)
    return [400, 501].includes(error.statusCode)
  }))
