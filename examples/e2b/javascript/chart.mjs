// Code that a model might have written, and the chart that comes out of it.
import { Sandbox } from '@e2b/code-interpreter'

const code = `
import matplotlib.pyplot as plt

months = ["Jan", "Feb", "Mar", "Apr"]
plt.bar(months, [12, 18, 9, 24])
plt.title("Signups")
plt.ylabel("people")
plt.show()
`

const sandbox = await Sandbox.create()
try {
  const execution = await sandbox.runCode(code)
  if (execution.error) throw new Error(execution.error.traceback)

  const [picture] = execution.results
  const png = Buffer.from(picture.png, 'base64')
  console.log('a picture:', png.toString('latin1', 1, 4))
  console.log('a chart:', picture.chart.type, '-', picture.chart.title)
  for (const bar of picture.chart.elements) console.log(`${bar.label}: ${Number(bar.value).toFixed(0)}`)
} finally {
  await sandbox.kill()
}
