# %% What is missing?
loans = test_Y3wMUE5_7gLdaTN.copy()
print(loans[["Self_Employed", "LoanAmount"]].isna().sum())

# %% Each column with its own strategy.
loans["Self_Employed"] = loans["Self_Employed"].fillna("No")
loans["LoanAmount"] = loans["LoanAmount"].fillna(loans["LoanAmount"].median())
amount = loans["LoanAmount"]

# %% The answer.
print(f"@mean_loan[{amount.mean():.2f}], @median_loan[{amount.median():.2f}], @std_dev_loan[{amount.std():.2f}]")
