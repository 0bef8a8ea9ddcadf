import assert from 'node:assert/strict'
import { request } from 'node:http'
import { Sandbox } from 'e2b'
import { covers, shared, until } from './support.mjs'

const sandbox = shared(Sandbox)

covers('Sandbox.downloadUrl')('a signed URL reads one file, and not for ever', async () => {
  await sandbox().files.write('/home/user/shared.txt', 'for everyone')
  await sandbox().files.write('/home/user/private.txt', 'for nobody')
  const url = await sandbox().downloadUrl('/home/user/shared.txt')
  assert.equal(await (await fetch(url)).text(), 'for everyone')
  assert.equal((await fetch(url.replace('shared', 'private'))).status, 401)
  const brief = await sandbox().downloadUrl('/home/user/shared.txt', { useSignatureExpiration: 1 })
  await until(async () => (await fetch(brief)).status === 401, 'the expiry')
})

covers('Sandbox.uploadUrl')('a signed URL writes one file', async () => {
  const url = await sandbox().uploadUrl('/home/user/incoming.txt')
  const body = new FormData()
  body.append('file', new Blob(['from outside']), 'incoming.txt')
  assert.equal((await fetch(url, { method: 'POST', body })).status, 200)
  assert.equal(await sandbox().files.read('/home/user/incoming.txt'), 'from outside')
  assert.equal((await fetch(url)).status, 401)
})

covers('Sandbox.getHost')('a server in the sandbox is reached by its host', async () => {
  await sandbox().files.write('/home/user/www/index.html', '<h1>under glass</h1>')
  const server = await sandbox().commands.run('python3 -m http.server 8123 -d /home/user/www', { background: true, timeoutMs: 0 })
  const host = sandbox().getHost(8123)
  assert(host.startsWith(`8123-${sandbox().sandboxId}.`))
  // The name need not resolve on this machine; what counts is that the server routes by it.
  const get = () =>
    new Promise((resolve, reject) => {
      request(process.env.E2B_SANDBOX_URL, { headers: { host } }, async (answer) => {
        resolve([answer.statusCode, Buffer.concat(await answer.toArray()).toString()])
      }).on('error', reject).end()
    })
  const answer = await until(async () => {
    const each = await get()
    return each[0] !== 502 && each
  }, 'an answer')
  assert.deepEqual(answer, [200, '<h1>under glass</h1>'])
  await server.kill()
})
