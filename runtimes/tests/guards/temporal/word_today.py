# pandas understands the word.
# finds: clock
load_data()
import pandas as pd
age = pd.to_datetime("today").normalize() - deals["created_at"].dt.normalize()
print((age.dt.days > 0).all())
