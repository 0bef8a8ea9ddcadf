# %% Loan amounts by education.
loans = test_Y3wMUE5_7gLdaTN.dropna(subset=["LoanAmount"])
print(loans.groupby("Education")["LoanAmount"].describe())

# %% A t-test between the two groups.
from scipy import stats

graduate = loans.loc[loans["Education"] == "Graduate", "LoanAmount"]
other = loans.loc[loans["Education"] == "Not Graduate", "LoanAmount"]
statistic, p = stats.ttest_ind(graduate, other)
print(p)

# %% The answer.
significance = "significant" if p < 0.05 else "no significant"
print(f"@graduate_mean_loan[{graduate.mean():.2f}], @not_graduate_mean_loan[{other.mean():.2f}],")
print(f"@significance[{significance}]")
