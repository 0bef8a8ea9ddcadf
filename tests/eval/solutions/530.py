# %% I look at how many passengers have both an age and a fare.
pairs = titanic_test.dropna(subset=["Age", "Fare"])
print(pairs["Sex"].value_counts())

# %% Pearson's r for each sex.
from scipy import stats

found = {}
for sex, group in pairs.groupby("Sex"):
    r, p = stats.pearsonr(group["Age"], group["Fare"])
    found[sex] = r, p, "none" if p >= 0.05 else "linear" if abs(r) >= 0.5 else "nonlinear"

# %% The answer.
for sex in ["male", "female"]:
    r, p, kind = found[sex]
    print(f"@correlation_coefficient_{sex}[{r:.2f}]")
    print(f"@p_value_{sex}[{p:.4f}]")
    print(f"@relationship_type_{sex}[{kind}]")
