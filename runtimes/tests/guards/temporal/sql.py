# The database has a clock as well.
# finds: clock
load_data()
import duckdb
answer = duckdb.sql("select count(*) from deals where created_at > current_date - interval 30 day")
print(answer.fetchall()[0][0])
