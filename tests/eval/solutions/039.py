# %% I look at the scores.
score = imp_score_ldlr_metabolome["importance.score"].dropna()
print(score.describe(), (score <= 0).sum())

# %% Shapiro-Wilk; the logarithm if it is not normal. It is defined for positive scores only.
import numpy as np
from scipy import stats

statistic, p = stats.shapiro(score)
transformed = np.log(score[score > 0]) if p < 0.05 else score

# %% The answer.
print(f"@is_normal[{p:.4f}]")
print(f"@transformed_importance_score_mean[{transformed.mean():.2f}]")
print(f"@transformed_importance_score_std[{transformed.std():.2f}]")
