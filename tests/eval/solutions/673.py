# %% What is missing?
print(my_test_01.isna().sum())

# %% The four steps of preparation.
from sklearn.preprocessing import StandardScaler

houses = my_test_01.copy()
houses["MedInc"] = houses["MedInc"].fillna(houses["MedInc"].mean())
houses["AveOccup"] = StandardScaler().fit_transform(houses[["AveOccup"]])[:, 0]
houses["RoomsPerPerson"] = houses["AveRooms"] / houses["Population"]
r = houses["MedianHouseValue"].corr(houses["RoomsPerPerson"])

# %% The answer.
import numpy as np

value = houses["MedianHouseValue"].to_numpy()
print(f"@mean_value[{np.mean(value):.4f}]")
print(f"@standard_deviation[{np.std(value):.4f}]")
print(f"@pearson_coefficient[{r:.4f}]")
