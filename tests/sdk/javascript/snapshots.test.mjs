import assert from 'node:assert/strict'
import { Sandbox, SandboxError, SandboxNotFoundError } from 'e2b'
import { covers, everything, fresh, unique } from './support.mjs'

const create = fresh(Sandbox)

covers('Sandbox.createSnapshot', 'Sandbox.deleteSnapshot')('a snapshot starts sandboxes with the files of its moment', async () => {
  const source = await create()
  await source.files.write('/home/user/note', 'then')
  const { snapshotId } = await source.createSnapshot()
  await source.files.write('/home/user/note', 'now')
  const copy = await create(snapshotId)
  assert.deepEqual([await source.files.read('/home/user/note'), await copy.files.read('/home/user/note')], ['now', 'then'])
  assert.equal(await Sandbox.deleteSnapshot(snapshotId), true)
  assert.equal(await Sandbox.deleteSnapshot(snapshotId), false)
  await assert.rejects(Sandbox.create(snapshotId), SandboxError)
})

covers('Sandbox.listSnapshots', 'SnapshotPaginator.nextItems')('snapshots are listed by sandbox and by name, in pages', async () => {
  const source = await create()
  const name = unique()
  const made = [await source.createSnapshot(), await source.createSnapshot({ name }), await source.createSnapshot()]
  const ids = made.map((snapshot) => snapshot.snapshotId).sort()
  const listed = await everything(source.listSnapshots())
  assert.deepEqual(listed.map((snapshot) => snapshot.snapshotId).sort(), ids)
  const named = await everything(Sandbox.listSnapshots({ name }))
  assert.deepEqual(named.map((snapshot) => snapshot.snapshotId), [made[1].snapshotId])
  const pages = source.listSnapshots({ limit: 2 })
  assert.deepEqual([(await pages.nextItems()).length, pages.hasNext], [2, true])
  assert.deepEqual([(await pages.nextItems()).length, pages.hasNext], [1, false])
  for (const id of ids) assert.equal(await Sandbox.deleteSnapshot(id), true)
})

covers('Sandbox.fork')('forks carry files and go their own ways', async () => {
  const source = await create()
  await source.files.write('/home/user/note', 'shared')
  const forks = await source.fork({ count: 2, timeoutMs: 60_000 })
  try {
    await forks[0].files.write('/home/user/note', 'mine')
    const notes = await Promise.all([source, ...forks].map((box) => box.files.read('/home/user/note')))
    assert.deepEqual(notes, ['shared', 'mine', 'shared'])
  } finally {
    await Promise.all(forks.map((fork) => fork.kill()))
  }
  await assert.rejects(Sandbox.fork('nosuchsandbox'), SandboxNotFoundError)
})
