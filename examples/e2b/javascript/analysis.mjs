// A table goes in, an analysis runs in cells that share state, a result comes out.
import { Sandbox } from '@e2b/code-interpreter'

const sales = `region,product,amount
north,tea,120
south,tea,80
north,coffee,200
south,coffee,340
west,tea,60
`

const sandbox = await Sandbox.create()
try {
  await sandbox.files.write('/home/user/sales.csv', sales)

  await sandbox.runCode("import pandas as pd\nsales = pd.read_csv('/home/user/sales.csv')")
  console.log('rows:', (await sandbox.runCode('len(sales)')).text)

  const regions = await sandbox.runCode("sales.groupby('region')['amount'].sum().reset_index()")
  const { region, amount } = regions.results[0].data
  console.log('by region:', `{${region.map((name, n) => `'${name}': ${amount[n]}`).join(', ')}}`)

  await sandbox.runCode("sales.groupby('product')['amount'].sum().to_csv('/home/user/by_product.csv')")
  console.log((await sandbox.files.read('/home/user/by_product.csv')).trim())

  const wrong = await sandbox.runCode("sales['price']")
  console.log('error:', wrong.error.name)
} finally {
  await sandbox.kill()
}
