import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before } from 'node:test'
import { BuildError, Sandbox, Template, TemplateError } from 'e2b'
import { covers, fresh, unique, until } from './support.mjs'

const create = fresh(Sandbox)
const context = mkdtempSync(join(tmpdir(), 'context-'))
after(() => rmSync(context, { recursive: true }))

const logs = []
let built
before(async () => {
  mkdirSync(join(context, 'seed'))
  writeFileSync(join(context, 'seed', 'data.txt'), 'from the context\n')
  const template = Template({ fileContextPath: context })
    .fromTemplate('base')
    .copy('seed/data.txt', '/home/user/data.txt')
    .runCmd('mkdir -p work && echo made > work/made.txt')
    .setEnvs({ FLAVOUR: 'plum' })
    .setWorkdir('/home/user/work')
  built = await Template.build(template, unique(), { tags: ['first'], onBuildLogs: (entry) => logs.push(entry.message) })
})

covers('Template.build')('what a template was built with is in its sandboxes', async () => {
  const sandbox = await create(`${built.name}:first`)
  const { stdout } = await sandbox.commands.run('pwd; cat made.txt; echo $FLAVOUR; cat ~/data.txt')
  assert.equal(stdout, '/home/user/work\nmade\nplum\nfrom the context\n')
  assert(logs.some((message) => message.includes('mkdir -p work')))
})

covers('Template.build')('a step that fails fails the build', async () => {
  const template = Template().fromTemplate('base').runCmd('exit 3')
  await assert.rejects(Template.build(template, unique()), BuildError)
})

covers('Template.buildInBackground', 'Template.getBuildStatus')('a build in the background can be followed', async () => {
  const info = await Template.buildInBackground(Template().fromTemplate('base').runCmd('echo working'), unique())
  const status = await until(async () => {
    const current = await Template.getBuildStatus(info)
    return !['waiting', 'building'].includes(current.status) && current
  }, 'the end of the build', 40)
  assert.equal(status.status, 'ready')
  assert(status.logEntries.some((entry) => entry.message.includes('echo working')))
})

covers('Template.exists', 'Template.aliasExists')('a name is known once it is built', async () => {
  assert.deepEqual([await Template.exists(built.name), await Template.aliasExists(built.name)], [true, true])
  assert.deepEqual([await Template.exists(unique()), await Template.aliasExists(unique())], [false, false])
})

covers('Template.assignTags', 'Template.getTags', 'Template.removeTags')('tags come and go', async () => {
  const tags = async () => (await Template.getTags(built.templateId)).map((tag) => tag.tag)
  assert((await tags()).includes('first'))
  const given = await Template.assignTags(`${built.name}:first`, ['stable', 'v1'])
  assert.equal(given.buildId, built.buildId)
  assert((await tags()).includes('stable'))
  await Template.removeTags(built.name, 'stable')
  assert(!(await tags()).includes('stable') && (await tags()).includes('v1'))
  await assert.rejects(Template.assignTags(`${unique()}:none`, 'x'), TemplateError)
})
