"""A table goes in, an analysis runs in cells that share state, a result comes out."""

from e2b_code_interpreter import Sandbox

SALES = """region,product,amount
north,tea,120
south,tea,80
north,coffee,200
south,coffee,340
west,tea,60
"""

with Sandbox.create() as sandbox:
    sandbox.files.write("/home/user/sales.csv", SALES)

    sandbox.run_code("import pandas as pd\nsales = pd.read_csv('/home/user/sales.csv')")
    print("rows:", sandbox.run_code("len(sales)").text)

    execution = sandbox.run_code("sales.groupby('region')['amount'].sum().reset_index()")
    print("by region:", dict(zip(execution.results[0].data["region"], execution.results[0].data["amount"])))

    sandbox.run_code("sales.groupby('product')['amount'].sum().to_csv('/home/user/by_product.csv')")
    print(sandbox.files.read("/home/user/by_product.csv").strip())

    execution = sandbox.run_code("sales['price']")
    print("error:", execution.error.name)
