# %% I look at the three columns.
print(test_x[["Fare", "Age", "Pclass"]].describe())

# %% Least squares, with the p-value of each coefficient from its t statistic.
import numpy as np
from scipy import stats

design = np.column_stack([np.ones(len(test_x)), test_x["Age"], test_x["Pclass"]])
fare = test_x["Fare"].to_numpy()
coefficients, *_ = np.linalg.lstsq(design, fare, rcond=None)
residuals = fare - design @ coefficients
freedom = len(fare) - design.shape[1]
variance = residuals @ residuals / freedom
errors = np.sqrt(np.diag(variance * np.linalg.inv(design.T @ design)))
p = 2 * stats.t.sf(np.abs(coefficients / errors), freedom)
print(coefficients, p)

# %% The answer.
age, pclass = ("significant" if value < 0.05 else "not significant" for value in p[1:])
print(f"@coef_age[{coefficients[1]:.2f}]")
print(f"@coef_pclass[{coefficients[2]:.2f}]")
print(f"@relationship_age[{age}]")
print(f"@relationship_pclass[{pclass}]")
