"""One sandbox prepared once, then tried in two ways: a snapshot to return to, and forks that go apart."""

from e2b import Sandbox

with Sandbox.create() as base:
    base.files.write("/home/user/plan.txt", "step 1: prepare\n")
    snapshot = base.create_snapshot()

    left, right = base.fork(count=2, timeout=60)
    left.commands.run("echo 'step 2: go left' >> plan.txt")
    right.commands.run("echo 'step 2: go right' >> plan.txt")
    for name, sandbox in {"base": base, "left": left, "right": right}.items():
        print(f"{name}:", "; ".join(sandbox.files.read("/home/user/plan.txt").splitlines()))

    left.kill()
    right.kill()

with Sandbox.create(snapshot.snapshot_id) as again:
    print("again:", again.files.read("/home/user/plan.txt").strip())
print("deleted:", Sandbox.delete_snapshot(snapshot.snapshot_id))
