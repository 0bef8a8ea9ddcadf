# Every stage has its name.
load_data()
print(deals["stage"].map({"open": "Open", "won": "Won", "lost": "Lost"}).value_counts().to_dict())
