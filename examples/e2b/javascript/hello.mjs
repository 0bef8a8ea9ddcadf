// The smallest program: a sandbox, a command, a file.
import { Sandbox } from 'e2b'

const sandbox = await Sandbox.create()
try {
  const result = await sandbox.commands.run('echo "Hello from $(id -un)"')
  console.log(result.stdout.trim())

  await sandbox.files.write('/home/user/greeting.txt', 'Hello, file!\n')
  console.log((await sandbox.files.read('/home/user/greeting.txt')).trim())
  console.log('running:', (await sandbox.isRunning()) ? 'True' : 'False')
} finally {
  await sandbox.kill()
}
