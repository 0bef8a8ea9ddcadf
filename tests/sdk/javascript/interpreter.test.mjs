import assert from 'node:assert/strict'
import { NotFoundError, Sandbox, TimeoutError } from '@e2b/code-interpreter'
import { covers, shared, unique } from './support.mjs'

const sandbox = shared(Sandbox)
const run = covers('Interpreter.runCode')

run('the last expression is the result and state lasts', async () => {
  const first = await sandbox().runCode('x = 20')
  const second = await sandbox().runCode('x + 22')
  assert.deepEqual([second.text, second.error], ['42', undefined])
  assert.equal(second.executionCount, first.executionCount + 1)
})

run('output streams while the cell runs', async () => {
  const seen = []
  const heard = `/tmp/${unique()}`
  // It goes on only when its first line was heard.
  const wait = `while not os.path.exists('${heard}'): time.sleep(0.02)`
  const code = `import os, sys, time\nprint('one', flush=True)\n${wait}\nprint('two')\nprint('oops', file=sys.stderr)`
  const note = async (message) => {
    seen.push(message.line)
    await sandbox().files.write(heard, '')
  }
  const execution = await sandbox().runCode(code, { onStdout: note, onStderr: note })
  assert.deepEqual([execution.logs.stdout.join(''), execution.logs.stderr.join('')], ['one\ntwo\n', 'oops\n'])
  assert.deepEqual(seen.join('').trim().split('\n').sort(), ['one', 'oops', 'two'])
})

run('unusual characters survive', async () => {
  const text = 'é\u2028\u0085日本語🦀'
  const execution = await sandbox().runCode(`print(${JSON.stringify(text)}, end="")\n"é日本語🦀"`)
  assert.deepEqual([execution.logs.stdout.join(''), execution.text], [text, 'é日本語🦀'])
})

run('an error has a name, a value and a traceback', async () => {
  const errors = []
  const { error } = await sandbox().runCode('1 / 0', { onError: (each) => void errors.push(each) })
  assert.deepEqual([error.name, error.value, errors.length], ['ZeroDivisionError', 'division by zero', 1])
  assert.match(error.traceback, /1 \/ 0/)
})

run('variables of a cell do not outlast it', async () => {
  const read = "import os; os.environ.get('ONCE', 'unset')"
  assert.equal((await sandbox().runCode(read, { envs: { ONCE: 'set' } })).text, 'set')
  assert.equal((await sandbox().runCode(read)).text, 'unset')
})

run('tables and figures come in forms to show', async () => {
  const table = await sandbox().runCode("import pandas as pd\npd.DataFrame({'a': [1, 2]})")
  assert.deepEqual(table.results[0].data, { a: [1, 2] })
  const figure = await sandbox().runCode(
    "import matplotlib.pyplot as plt\nplt.bar(['x', 'y'], [1, 2])\nplt.title('Bars')\nplt.show()"
  )
  const result = figure.results.find((each) => each.png)
  assert.equal(Buffer.from(result.png, 'base64').toString('latin1', 1, 4), 'PNG')
  assert.deepEqual([result.chart.type, result.chart.title], ['bar', 'Bars'])
  assert.deepEqual(result.chart.elements.map((bar) => [bar.label, Number(bar.value)]), [['x', 1], ['y', 2]])
})

run('a cell that takes too long is interrupted and state stays', async () => {
  await sandbox().runCode("survivor = 'still here'")
  await assert.rejects(sandbox().runCode('import time\ntime.sleep(600)', { timeoutMs: 1000 }), TimeoutError)
  assert.equal((await sandbox().runCode('survivor')).text, 'still here')
})

run('other languages run too', async () => {
  assert.equal((await sandbox().runCode('const n = 6; n * 7', { language: 'javascript' })).text, '42')
  assert.equal((await sandbox().runCode('const s: string = "ts"; s.length', { language: 'typescript' })).text, '2')
  assert.equal((await sandbox().runCode('echo from $((40 + 2))', { language: 'bash' })).logs.stdout.join(''), 'from 42\n')
})

covers('Interpreter.createCodeContext', 'Interpreter.listCodeContexts', 'Interpreter.removeCodeContext')(
  'a context has its own state and directory until it is removed',
  async () => {
    const context = await sandbox().createCodeContext({ cwd: '/tmp', language: 'python' })
    assert.deepEqual([context.language, context.cwd], ['python', '/tmp'])
    await sandbox().runCode('only_here = 1', { context })
    assert.equal((await sandbox().runCode('only_here')).error.name, 'NameError')
    assert.equal((await sandbox().runCode('only_here', { context })).text, '1')
    const ids = async () => (await sandbox().listCodeContexts()).map((each) => each.id)
    assert((await ids()).includes(context.id))
    await sandbox().removeCodeContext(context)
    assert(!(await ids()).includes(context.id))
    await assert.rejects(sandbox().removeCodeContext(context), NotFoundError)
  }
)

covers('Interpreter.restartCodeContext')('a restart keeps the context and forgets its state', async () => {
  const context = await sandbox().createCodeContext()
  await sandbox().runCode('gone = 1', { context })
  await sandbox().restartCodeContext(context)
  assert.equal((await sandbox().runCode('gone', { context })).error.name, 'NameError')
})
