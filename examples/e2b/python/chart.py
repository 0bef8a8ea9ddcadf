"""Code that a model might have written, and the chart that comes out of it."""

import base64

from e2b_code_interpreter import Sandbox

CODE = """
import matplotlib.pyplot as plt

months = ["Jan", "Feb", "Mar", "Apr"]
plt.bar(months, [12, 18, 9, 24])
plt.title("Signups")
plt.ylabel("people")
plt.show()
"""

with Sandbox.create() as sandbox:
    execution = sandbox.run_code(CODE)
    if execution.error:
        raise SystemExit(execution.error.traceback)

    picture = execution.results[0]
    png = base64.b64decode(picture.png)
    print("a picture:", png[1:4].decode())
    print("a chart:", picture.chart.type.value, "-", picture.chart.title)
    for bar in picture.chart.elements:
        print(f"{bar.label}: {float(bar.value):.0f}")
