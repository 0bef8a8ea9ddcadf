# Weekdays are computed, not guessed.
load_data()
from datetime import datetime
print([datetime.fromisoformat(text).strftime("%A") for text in emails["sent_at"].head(3)])
