import assert from 'node:assert/strict'
import { Secret, SecretError, SecretNotFoundError } from 'e2b'
import { covers, everything, unique } from './support.mjs'

covers('Secret.create', 'Secret.getInfo', 'Secret.update', 'Secret.exists', 'Secret.destroy')(
  'a secret has a life and versions',
  async () => {
    const name = unique()
    const made = await Secret.create(name, 'hunter2-first', { metadata: { team: 'blue' } })
    assert.deepEqual([made.name, made.version, { ...made.metadata }], [name, 1, { team: 'blue' }])
    assert.deepEqual(await Secret.getInfo(made.secretId), await Secret.getInfo(name))
    await assert.rejects(Secret.create(name, 'again'), SecretError)
    assert.equal((await Secret.update(name, 'hunter2-second')).version, 2)
    assert(!JSON.stringify(await Secret.getInfo(name)).includes('hunter2'))
    assert.equal(await Secret.exists(name), true)
    assert.equal(await Secret.destroy(name), true)
    assert.equal(await Secret.destroy(name), false)
    assert.equal(await Secret.exists(name), false)
    await assert.rejects(Secret.getInfo(name), SecretNotFoundError)
  }
)

covers('Secret.list', 'SecretPaginator.nextItems')('secrets are listed in pages', async () => {
  const names = [unique(), unique(), unique()]
  for (const name of names) await Secret.create(name, 'x')
  const seen = (await everything(Secret.list({ limit: 2 }))).map((secret) => secret.name)
  assert(names.every((name) => seen.includes(name)))
  assert.equal(new Set(seen).size, seen.length)
  for (const name of names) assert.equal(await Secret.destroy(name), true)
})

covers('Secret.fill', 'Secret.iamToken')('placeholders are made without a server', () => {
  assert.equal(Secret.fill('db'), '${e2b.secrets.db}')
  const token = { audience: 'bank', tokenType: 'JWT-SVID' }
  assert.deepEqual(Secret.iamToken(token), token)
})
