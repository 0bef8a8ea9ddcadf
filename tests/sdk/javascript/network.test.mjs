import assert from 'node:assert/strict'
import { Sandbox, SandboxError } from 'e2b'
import { covers, refuses, shared } from './support.mjs'

const sandbox = shared(Sandbox)

/** Refused with a message that names what was asked for. */
const refusal = (word) => (error) => {
  assert(error instanceof SandboxError, error)
  assert.match(error.message, word)
  assert([400, 501].includes(error.statusCode), `${error.statusCode}`)
  return true
}

refuses('Sandbox.create(network=)')('network rules are refused', () =>
  assert.rejects(Sandbox.create({ network: { allowOut: ['10.0.0.1'] } }), refusal(/network/i)))

refuses('Sandbox.create(allow_internet_access=True)')('the internet is refused', () =>
  assert.rejects(Sandbox.create({ allowInternetAccess: true }), refusal(/internet|network/i)))

refuses('Sandbox.create(iam=)')('workload identity is refused', () =>
  assert.rejects(
    Sandbox.create({ iam: { tokens: { cloud: { audience: 'bank', tokenType: 'JWT-SVID' } } } }),
    refusal(/iam|identity/i)
  ))

refuses('Sandbox.create(mcp=)')('the MCP gateway is refused', () =>
  assert.rejects(Sandbox.create('base', { mcp: { time: {} } }), refusal(/mcp/i)))

refuses('Sandbox.update_network')('a network update is refused and the sandbox goes on', async () => {
  await assert.rejects(sandbox().updateNetwork({ allowOut: ['10.0.0.0/8'] }), refusal(/network/i))
  assert.equal((await sandbox().commands.run('echo on')).stdout, 'on\n')
})

covers('Sandbox.getMcpUrl', 'Sandbox.getMcpToken')('the MCP address and token are found in their places', async () => {
  assert.equal(sandbox().getMcpUrl(), `https://${sandbox().getHost(50005)}/mcp`)
  await sandbox().files.write('/etc/mcp-gateway/.token', 'token-of-the-gateway', { user: 'root' })
  assert.equal(await sandbox().getMcpToken(), 'token-of-the-gateway')
})
