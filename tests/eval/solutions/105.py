# %% I look at the two columns.
loans = test_Y3wMUE5_7gLdaTN
print(loans[["ApplicantIncome", "LoanAmount"]].describe())

# %% Pearson's r over rows that have both.
pairs = loans[["ApplicantIncome", "LoanAmount"]].dropna()
print(f"@correlation_coefficient[{pairs['ApplicantIncome'].corr(pairs['LoanAmount']):.2f}]")
