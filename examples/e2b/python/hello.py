"""The smallest program: a sandbox, a command, a file."""

from e2b import Sandbox

with Sandbox.create() as sandbox:
    result = sandbox.commands.run('echo "Hello from $(id -un)"')
    print(result.stdout.strip())

    sandbox.files.write("/home/user/greeting.txt", "Hello, file!\n")
    print(sandbox.files.read("/home/user/greeting.txt").strip())
    print("running:", sandbox.is_running())
