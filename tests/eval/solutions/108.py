# %% I look at the incomes.
loans = test_Y3wMUE5_7gLdaTN
print(loans[["ApplicantIncome", "CoapplicantIncome"]].describe())

# %% Their sum.
total = loans["ApplicantIncome"] + loans["CoapplicantIncome"]
print(f"@mean_total_income[{total.mean():.2f}] @std_dev_total_income[{total.std():.2f}]")
