//! Sums of charges by group.

use std::collections::BTreeMap;

use super::{
    Amounts, LedgerEntry, UsageGroup, UsageKey, UsageName, UsagePage, UsageQuery, day, moment,
};

/// Adds charges up.
#[derive(Debug)]
pub(super) struct Summer<'q> {
    query: &'q UsageQuery,
    groups: BTreeMap<UsageName, (u64, Amounts)>,
    total: (u64, Amounts),
}

impl<'q> Summer<'q> {
    pub(super) fn new(query: &'q UsageQuery) -> Self {
        Self { query, groups: BTreeMap::new(), total: (0, Amounts::default()) }
    }

    /// Counts a charge if the query asks for it.
    pub(super) fn add(&mut self, entry: &LedgerEntry) {
        let query = self.query;
        let at = moment(entry.began);
        let is_wanted = query.from <= at
            && at < query.to
            && query.tenant.as_ref().is_none_or(|tenant| *tenant == entry.tenant)
            && query.run.as_ref().is_none_or(|wanted| entry.run.as_ref() == Some(wanted));
        if !is_wanted {
            return;
        }
        let group = self.groups.entry(name(entry, &query.by)).or_default();
        for (charges, amounts) in [group, &mut self.total] {
            *charges += 1;
            amounts.add(&entry.amounts);
        }
    }

    pub(super) fn page(self) -> UsagePage {
        let group = |(name, (charges, amounts))| UsageGroup { name, charges, amounts };
        let is_cut = self.groups.len().saturating_sub(self.query.after) > self.query.limit;
        let page = self.groups.into_iter().skip(self.query.after).take(self.query.limit);
        let groups = page.map(group).collect();
        let (charges, amounts) = self.total;
        UsagePage { total: group((UsageName::default(), (charges, amounts))), groups, is_cut }
    }
}

fn name(entry: &LedgerEntry, by: &[UsageKey]) -> UsageName {
    let mut name = UsageName::default();
    for key in by {
        match key {
            UsageKey::Tenant => name.tenant = Some(entry.tenant.clone()),
            UsageKey::Run => name.run = entry.run.as_ref().map(ToString::to_string),
            UsageKey::Model => name.model.clone_from(&entry.model),
            UsageKey::Operation => name.operation.clone_from(&entry.operation),
            UsageKey::Day => name.day = Some(day(entry.began)),
            UsageKey::Account => name.account = Some(entry.account.as_str().to_owned()),
        }
    }
    name
}
