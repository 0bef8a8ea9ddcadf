"""The datasets of the guards' scripts: a sales team's, made up, always the same.

Runs inside the context under test, because only that sees the template's files.
Three folders: `told`, whose manifest says where the data ends; `untold`, whose
manifest does not; and `live`, whose data ends today.
"""

import datetime
import json
import os

import pandas as pd

OWNERS = ("ann", "bob", "cem", "dia", "eve", "fay")
REGIONS = ("EMEA", "APAC", "AMER")
STAGES = ("open", "won", "lost")
LAST = datetime.datetime(2026, 3, 20, 16, 30)


def moment(number, last, step=5):
    """A time that is the further from the end the larger `number` is."""
    return last - datetime.timedelta(hours=step * number)


def iso(when):
    return when.isoformat(timespec="seconds")


def tables(last):
    deals = [{
        "id": n, "name": f"Deal {n}", "account_id": f"ACC-{n % 25 + 1:04d}", "owner": OWNERS[n % 6].title(),
        "owner_email": f"{OWNERS[n % 6]}@sales.example", "amount": 1000.0 + 37 * n, "stage": STAGES[n % 3],
        "created_at": iso(moment(n, last, 20)), "close_date": iso(last + datetime.timedelta(days=5 * n - 100)),
        "call": {"at": iso(moment(n, last, 9)), "text": "let's follow up in two days", "days": 2},
    } for n in range(1, 61)]
    emails = [{
        "thread_id": f"th_{n:04d}", "deal_id": n % 50 + 1, "company_id": 9000 + n % 25, "account_domain": f"acme{n % 25 + 1}.example",
        "sender": f"{OWNERS[n % 6].title()}@Sales.example", "sent_at": iso(moment(n, last)), "sent_epoch": int(moment(n, last).timestamp()),
        # Some write their address as the directory has it, some do not.
        "reply_to": f"{OWNERS[n % 6] if n % 6 < 3 else OWNERS[n % 6].upper()}@sales.example",
    } for n in range(240)]
    stakeholders = [{
        "stakeholder_id": 500 + n, "deal_ref": f"{n % 60 + 1:04d}", "email": f"p{n}@acme{n % 25 + 1}.example",
        "role": ("champion", "buyer", "user")[n % 3], "joined": iso(moment(n, last, 11))[:10],
    } for n in range(120)]
    accounts = [{
        "account_id": f"acc-{n:04d}", "crm_id": str(n), "domain": f"acme{n}.example", "region": REGIONS[n % 3], "employees": 10 * n,
    } for n in range(1, 26)]
    activities = [{
        "activity_id": 7000 + n, "deal_id": n % 50 + 1, "kind": ("call", "meeting")[n % 2], "owner": OWNERS[n % 6].title(),
        "at": moment(n, last, 3).strftime("%Y-%m-%d %H:%M:%S"), "minutes": 10 + n % 50,
    } for n in range(400)]
    # Two of the owners are listed twice, with another team.
    owners = [{"email": f"{name}@sales.example", "team": team, "quota": 50000 + 1000 * at}
              for at, (name, team) in enumerate([*((name, "field") for name in OWNERS), ("ann", "inside"), ("bob", "inside")])]
    targets = [{"month": f"2026-{month:02d}-01", "region": f"{region} ", "target": 10000 * month}
               for month in (1, 2, 3) for region in REGIONS]
    first = (last - datetime.timedelta(days=60)).date()
    calendar = [{"day": str(first + datetime.timedelta(days=n)), "workday": (first + datetime.timedelta(days=n)).weekday() < 5} for n in range(61)]
    return {
        "deals": ("json", deals, {"dates": {"created_at": "iso", "close_date": "iso"}}),
        "emails": ("jsonl", emails, {}),
        "stakeholders": ("csv", stakeholders, {"text": ["deal_ref"]}),
        "accounts": ("parquet", accounts, {}),
        "activities": ("csv", activities, {"dates": {"at": "iso"}}),
        "owners": ("csv", owners, {}),
        "targets": ("csv", targets, {"dates": {"month": "iso"}}),
        "calendar": ("csv", calendar, {"dates": {"day": "iso"}}),
        "settings": ("json", {"currency": "EUR", "quarter": {"start": "2026-01-01", "end": "2026-03-31"}}, {}),
    }


def write(folder, last, as_of=None, guards=True):
    os.makedirs(folder, exist_ok=True)
    entries = []
    for name, (form, records, options) in tables(last).items():
        path = f"{folder}/{name}.{form}"
        with open(path, "wb") as file:
            if form == "json":
                file.write(json.dumps(records).encode())
            elif form == "jsonl":
                file.writelines(json.dumps(record).encode() + b"\n" for record in records)
            elif form == "csv":
                pd.DataFrame(records).to_csv(file, index=False)
            else:
                pd.DataFrame(records).to_parquet(file, index=False)
        entries.append({
            "name": os.path.basename(path), "variable": name, "path": os.path.basename(path), "format": form,
            "bytes": os.path.getsize(path), "rows": len(records), "strategy": "whole", "options": options,
            "sentence": "", **({"as_of": as_of} if as_of and options.get("dates") else {}),
        })
    with open(f"{folder}/datasets.json", "w") as file:
        json.dump({"version": 1, "budget": 1 << 30, "guards": guards, "datasets": entries}, file)


def write_all(folder):
    now = datetime.datetime.now().replace(microsecond=0)
    one_off = (({"joins": False}, "-without-joins"), ({"dates": False}, "-without-dates"))
    for guards, suffix in ((True, ""), (False, "-unguarded"), *one_off):
        write(f"{folder}/told{suffix}", LAST, str(LAST.date()), guards)
        write(f"{folder}/untold{suffix}", LAST, None, guards)
        write(f"{folder}/live{suffix}", now, None, guards)
