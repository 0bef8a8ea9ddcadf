// A long-running command: its output arrives as it is written, and it is talked to while it runs.
import { Sandbox } from 'e2b'

const program = `
import sys
total = 0
print("ready", flush=True)
for line in sys.stdin:
    total += int(line)
    print(f"total {total}", flush=True)
print("no more numbers")
`

const sandbox = await Sandbox.create()
try {
  await sandbox.files.write('/home/user/adder.py', program)
  const output = []
  const adder = await sandbox.commands.run('python3 adder.py', {
    background: true,
    stdin: true,
    onStdout: (text) => void output.push(text),
  })
  const processes = await sandbox.commands.list()
  console.log('listed:', processes.some((process) => process.pid === adder.pid) ? 'True' : 'False')

  for (const number of [5, 10, 27]) await adder.sendStdin(`${number}\n`)
  await adder.closeStdin()

  const result = await adder.wait()
  process.stdout.write(output.join(''))
  console.log('exit code:', result.exitCode)
} finally {
  await sandbox.kill()
}
