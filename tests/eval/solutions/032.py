# %% I look at the scores.
score = imp_score_ldlr_metabolome["importance.score"]
print(score.describe())

# %% The answer.
print(f"@importance_score_mean[{score.mean():.2f}] @importance_score_std[{score.std():.2f}]")
