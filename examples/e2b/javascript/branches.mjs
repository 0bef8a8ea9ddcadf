// One sandbox prepared once, then tried in two ways: a snapshot to return to, and forks that go apart.
import { Sandbox } from 'e2b'

const base = await Sandbox.create()
await base.files.write('/home/user/plan.txt', 'step 1: prepare\n')
const snapshot = await base.createSnapshot()

const [left, right] = await base.fork({ count: 2, timeoutMs: 60_000 })
await left.commands.run("echo 'step 2: go left' >> plan.txt")
await right.commands.run("echo 'step 2: go right' >> plan.txt")
for (const [name, sandbox] of Object.entries({ base, left, right })) {
  const plan = await sandbox.files.read('/home/user/plan.txt')
  console.log(`${name}:`, plan.trim().split('\n').join('; '))
}
await Promise.all([base.kill(), left.kill(), right.kill()])

const again = await Sandbox.create(snapshot.snapshotId)
console.log('again:', (await again.files.read('/home/user/plan.txt')).trim())
await again.kill()
console.log('deleted:', (await Sandbox.deleteSnapshot(snapshot.snapshotId)) ? 'True' : 'False')
