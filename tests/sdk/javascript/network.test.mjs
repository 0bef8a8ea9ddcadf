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

const upstream = process.env.SDK_UPSTREAM
const reached = 'hello from outside: /x\n'
const ask = async (sandbox) => {
  const script = 'import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=10).read().decode(), end="")'
  const run = sandbox.commands.run(`python3 -c '${script}' http://${upstream}/x 2>&1 || true`)
  return (await run).stdout
}

/** A sandbox of its own, which is gone after. */
const using = async (options, body) => {
  const own = await Sandbox.create(options)
  try {
    await body(own)
  } finally {
    await own.kill()
  }
}

covers('Sandbox.create', 'Sandbox.getInfo')('the internet is reached when asked for', () =>
  using({ allowInternetAccess: true }, async (own) => {
    assert.equal(await ask(own), reached)
    assert.equal((await own.getInfo()).allowInternetAccess, true)
  }))

covers('Sandbox.create')('only those are reached who are named', () =>
  using({ network: { allowOut: ['example.com'], denyOut: ['0.0.0.0/0'] } }, async (own) => {
    assert.match(await ask(own), /403/)
  }))

covers('Sandbox.updateNetwork')('an update holds from then on', () =>
  using({ network: { allowOut: [upstream] } }, async (own) => {
    assert.equal(await ask(own), reached)
    await own.updateNetwork({ allowOut: ['example.com'] })
    assert.match(await ask(own), /403/)
    await own.updateNetwork({ allowInternetAccess: true })
    assert.equal(await ask(own), reached)
  }))

refuses('Sandbox.create(network.egress_proxy=)')('another proxy is refused', () =>
  assert.rejects(
    Sandbox.create({ network: { egressProxy: { address: '10.0.0.1:1080' } } }),
    refusal(/egressProxy/)
  ))

refuses('Sandbox.create(network.rules=)')('rewriting requests is refused', () =>
  assert.rejects(
    Sandbox.create({
      network: {
        allowOut: ['example.com'],
        rules: { 'example.com': [{ transform: { headers: { 'x-key': 'secret' } } }] },
      },
    }),
    refusal(/rules/)
  ))

refuses('Sandbox.create(iam=)')('workload identity is refused', () =>
  assert.rejects(
    Sandbox.create({ iam: { tokens: { cloud: { audience: 'bank', tokenType: 'JWT-SVID' } } } }),
    refusal(/iam|identity/i)
  ))

refuses('Sandbox.create(mcp=)')('the MCP gateway is refused', () =>
  assert.rejects(Sandbox.create('base', { mcp: { time: {} } }), refusal(/mcp/i)))

covers('Sandbox.getMcpUrl', 'Sandbox.getMcpToken')('the MCP address and token are found in their places', async () => {
  assert.equal(sandbox().getMcpUrl(), `https://${sandbox().getHost(50005)}/mcp`)
  await sandbox().files.write('/etc/mcp-gateway/.token', 'token-of-the-gateway', { user: 'root' })
  assert.equal(await sandbox().getMcpToken(), 'token-of-the-gateway')
})
