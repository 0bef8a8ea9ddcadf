//! Lists of sandboxes: filtered, in order, by pages.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::clock::Moment;
use crate::keys::Tenant;
use crate::problem::Problem;
use crate::sandbox::Sandbox;
use crate::start::Actions;

/// Which sandboxes to show.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// All of these pairs.
    pub metadata: BTreeMap<String, String>,
    pub running: bool,
    pub paused: bool,
    /// At that moment, or after it.
    pub started_after: Option<Moment>,
    /// A template's name, or another name for it.
    pub template: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    #[default]
    NewestFirst,
    OldestFirst,
}

/// One page, and where the next begins.
#[derive(Debug)]
pub struct Page<T> {
    pub items: Vec<T>,
    pub next: Option<String>,
    pub keys: Keys,
}

/// Where each item of a list stands in its order, for whoever joins the lists of
/// several nodes: `<microseconds>.<id>`, as in the token of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys(pub Vec<String>);

fn token((micros, id): (i128, String)) -> String {
    format!("{micros}.{id}")
}

/// The most that a page holds.
pub const LONGEST_PAGE: usize = 100;

impl Actions {
    pub fn list(
        &self,
        tenant: &Tenant,
        filter: &Filter,
        order: Order,
        limit: usize,
        after: Option<&str>,
    ) -> Result<Page<Arc<Sandbox>>, Problem> {
        let all = self.list_all(tenant, filter, order);
        page(all, limit, after, |sandbox| key(sandbox), order == Order::NewestFirst)
    }

    /// As [`Self::list`], in one piece.
    pub fn list_whole(&self, tenant: &Tenant, filter: &Filter, order: Order) -> Page<Arc<Sandbox>> {
        let items = self.list_all(tenant, filter, order);
        let keys = Keys(items.iter().map(|sandbox| token(key(sandbox))).collect());
        Page { items, next: None, keys }
    }

    fn list_all(&self, tenant: &Tenant, filter: &Filter, order: Order) -> Vec<Arc<Sandbox>> {
        let mut all = self.registry().of(tenant);
        all.retain(|sandbox| fits(filter, sandbox));
        all.sort_by_key(|sandbox| key(sandbox));
        if order == Order::NewestFirst {
            all.reverse();
        }
        all
    }
}

/// Sandboxes that began in the same microsecond still have one order.
fn key(sandbox: &Sandbox) -> (i128, String) {
    (sandbox.facts().started_at.unix_micros(), sandbox.id().to_string())
}

fn fits(filter: &Filter, sandbox: &Sandbox) -> bool {
    let facts = sandbox.facts();
    let state = if sandbox.is_paused() { filter.paused } else { filter.running };
    let template = filter.template.as_deref();
    state
        && filter.metadata.iter().all(|(key, value)| facts.metadata.get(key) == Some(value))
        && filter.started_after.is_none_or(|after| facts.started_at >= after)
        && template.is_none_or(|name| facts.template == name || facts.alias == name)
}

/// Cuts a page out of what is sorted by `key`. The token names the last item
/// that was shown, so that nothing is missed or told twice when others come and
/// go between two pages; it says nothing that its reader does not know.
pub(crate) fn page<T>(
    all: Vec<T>,
    limit: usize,
    after: Option<&str>,
    key: impl Fn(&T) -> (i128, String),
    descending: bool,
) -> Result<Page<T>, Problem> {
    if limit == 0 || limit > LONGEST_PAGE {
        return Err(Problem::invalid(format!("limit must be between 1 and {LONGEST_PAGE}")));
    }
    let after = after.filter(|token| !token.is_empty()).map(parse_token).transpose()?;
    let is_later = |item: &T| match &after {
        None => true,
        Some(last) if descending => key(item) < *last,
        Some(last) => key(item) > *last,
    };
    let mut rest = all.into_iter().filter(is_later);
    let items: Vec<T> = rest.by_ref().take(limit).collect();
    let more = rest.next().is_some();
    drop(rest);
    let last = items.last().filter(|_| more).map(&key);
    let keys = Keys(items.iter().map(|item| token(key(item))).collect());
    Ok(Page { items, next: last.map(token), keys })
}

fn parse_token(token: &str) -> Result<(i128, String), Problem> {
    let wrong = || Problem::invalid("invalid page token");
    let (micros, id) = token.split_once('.').ok_or_else(wrong)?;
    Ok((micros.parse().map_err(|_| wrong())?, id.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_each_other_without_gap_or_repetition() {
        let all: Vec<i128> = (0..7).rev().collect();
        let key = |n: &i128| (*n, String::new());
        let mut seen = Vec::new();
        let mut token = None;
        loop {
            let page = page(all.clone(), 3, token.as_deref(), key, true).unwrap();
            seen.extend(page.items);
            token = page.next;
            if token.is_none() {
                break;
            }
        }
        assert_eq!(seen, all);
    }

    #[test]
    fn a_token_of_somebody_else_is_refused() {
        assert!(page(vec![1i128], 1, Some("nonsense"), |n| (*n, String::new()), true).is_err());
        assert!(page(vec![1i128], 0, None, |n| (*n, String::new()), true).is_err());
    }
}
