"""A long-running command: its output arrives as it is written, and it is talked to while it runs."""

from e2b import Sandbox

PROGRAM = """
import sys
total = 0
print("ready", flush=True)
for line in sys.stdin:
    total += int(line)
    print(f"total {total}", flush=True)
print("no more numbers")
"""

with Sandbox.create() as sandbox:
    sandbox.files.write("/home/user/adder.py", PROGRAM)
    adder = sandbox.commands.run("python3 adder.py", background=True, stdin=True)
    print("listed:", any(process.pid == adder.pid for process in sandbox.commands.list()))

    for number in (5, 10, 27):
        adder.send_stdin(f"{number}\n")
    adder.close_stdin()

    result = adder.wait(on_stdout=lambda text: print(text, end=""))
    print("exit code:", result.exit_code)
