import assert from 'node:assert/strict'
import { Sandbox } from 'e2b'
import { covers, shared, unique } from './support.mjs'

const sandbox = shared(Sandbox)
const author = { authorName: 'Ada', authorEmail: 'ada@example.com' }

async function repository() {
  const path = `/home/user/${unique()}`
  await sandbox().git.init(path, { initialBranch: 'main' })
  await sandbox().files.write(`${path}/file`, 'one\n')
  await sandbox().git.add(path)
  await sandbox().git.commit(path, 'First', author)
  return path
}

covers('Git.init', 'Git.add', 'Git.commit', 'Git.status')('changes are seen, staged and committed', async () => {
  const path = await repository()
  assert.equal((await sandbox().git.status(path)).isClean, true)
  await sandbox().files.write(`${path}/other`, 'x')
  assert.equal((await sandbox().git.status(path)).untrackedCount, 1)
  await sandbox().git.add(path, { files: ['other'] })
  assert.deepEqual((await sandbox().git.status(path)).fileStatus.map((file) => [file.name, file.staged]), [['other', true]])
  const { stdout } = await sandbox().commands.run("git log --format='%an %s'", { cwd: path })
  assert.equal(stdout, 'Ada First\n')
})

covers('Git.branches', 'Git.createBranch', 'Git.checkoutBranch', 'Git.deleteBranch')('branches come and go', async () => {
  const path = await repository()
  await sandbox().git.createBranch(path, 'topic')
  assert.equal((await sandbox().git.branches(path)).currentBranch, 'topic')
  await sandbox().git.checkoutBranch(path, 'main')
  assert.deepEqual((await sandbox().git.branches(path)).branches.sort(), ['main', 'topic'])
  await sandbox().git.deleteBranch(path, 'topic', { force: true })
  assert.deepEqual((await sandbox().git.branches(path)).branches, ['main'])
})

covers('Git.reset', 'Git.restore')('changes can be taken back', async () => {
  const path = await repository()
  await sandbox().files.write(`${path}/file`, 'two\n')
  await sandbox().git.restore(path, { paths: ['file'] })
  assert.equal(await sandbox().files.read(`${path}/file`), 'one\n')
  await sandbox().files.write(`${path}/file`, 'three\n')
  await sandbox().git.reset(path, { mode: 'hard', target: 'HEAD' })
  assert.equal(await sandbox().files.read(`${path}/file`), 'one\n')
})

covers('Git.clone', 'Git.push', 'Git.pull', 'Git.remoteAdd', 'Git.remoteGet')('commits travel between clones', async () => {
  const path = await repository()
  const [bare, other] = [`${path}-bare.git`, `${path}-other`]
  await sandbox().git.init(bare, { bare: true, initialBranch: 'main' })
  await sandbox().git.remoteAdd(path, 'origin', bare)
  assert.equal(await sandbox().git.remoteGet(path, 'origin'), bare)
  await sandbox().git.push(path, { remote: 'origin', branch: 'main' })
  await sandbox().git.clone(bare, { path: other })
  await sandbox().files.write(`${path}/file`, 'two\n')
  await sandbox().git.add(path)
  await sandbox().git.commit(path, 'Second', author)
  assert.equal((await sandbox().git.status(path)).ahead, 1)
  await sandbox().git.push(path, { remote: 'origin', branch: 'main' })
  await sandbox().git.pull(other)
  assert.equal(await sandbox().files.read(`${other}/file`), 'two\n')
})

covers('Git.setConfig', 'Git.getConfig', 'Git.configureUser', 'Git.dangerouslyAuthenticate')('settings are kept', async () => {
  const path = await repository()
  const local = { scope: 'local', path }
  await sandbox().git.setConfig('pull.rebase', 'false', local)
  assert.equal(await sandbox().git.getConfig('pull.rebase', local), 'false')
  assert.equal(await sandbox().git.getConfig('no.such', local), undefined)
  await sandbox().git.configureUser('Grace', 'grace@example.com')
  assert.equal(await sandbox().git.getConfig('user.email'), 'grace@example.com')
  await sandbox().git.dangerouslyAuthenticate({ username: 'ada', password: 'token-123', host: 'git.example.com' })
  const { stdout } = await sandbox().commands.run("printf 'protocol=https\\nhost=git.example.com\\n\\n' | git credential fill")
  assert.match(stdout, /password=token-123/)
})
