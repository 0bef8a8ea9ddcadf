import json
import os
import sys

home = os.path.expanduser("~")
os.chdir(home)
sys.path.insert(0, home)

import checker

with open("answer.json") as file:
    given = json.load(file)
names = sorted(os.listdir("files")) if os.path.isdir("files") else []
files = {name: os.path.join("files", name) for name in names}
result = checker.check(given["answer"], files)
score, reason = result if isinstance(result, tuple) else (result, "")
print(json.dumps({"score": float(score), "reason": str(reason)}))
