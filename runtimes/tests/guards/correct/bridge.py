# Who is in which thread: two lists of pairs.
load_data()
import pandas as pd
people = pd.DataFrame({"person": ["a", "a", "b", "b", "c"], "topic": ["x", "y", "x", "y", "x"]})
topics = pd.DataFrame({"topic": ["x", "x", "y", "y"], "room": ["r1", "r2", "r1", "r3"]})
print(len(people.merge(topics, on="topic")))
