//! The webhooks and messages of a server in memory.
//!
//! A change is planned as lines of the log, written, and only then applied. One thread does that:
//! see [`super::writer`]. Claims alone change memory without the log: they end with the process.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use time::OffsetDateTime;

use super::log::{Line, PreviousSecret, StoredDelivery, StoredWebhook};
use crate::event::Message;
use crate::shelf::{
    CLAIMED_OF_TENANT, Claimed, DISABLED_ERROR, DeliveryRecord, DeliveryState, DisabledReason,
    MAX_QUEUE, MAX_WEBHOOKS, NewWebhook, Outcome, QueueOutcome, SWEEP_STEP, Webhook,
};
use crate::sign::Secret;

#[derive(Debug, Default)]
pub(super) struct State {
    webhooks: BTreeMap<String, StoredWebhook>,
    deliveries: BTreeMap<u64, StoredDelivery>,
    /// One for each webhook.
    queues: BTreeMap<String, Queue>,
    /// Times of the next attempts of waiting messages; of those being sent, ends of their leases.
    due: BTreeMap<u64, OffsetDateTime>,
    /// The tenant that was served last.
    last_claimed: String,
    last_number: u64,
}

/// The messages of one webhook by number.
#[derive(Debug, Default)]
struct Queue {
    all: BTreeSet<u64>,
    waiting: BTreeSet<u64>,
    by_due: BTreeSet<(OffsetDateTime, u64)>,
    /// Ids of all messages.
    ids: HashSet<String>,
}

/// Lines to write, and the answer once they are written.
pub(super) type Plan<T> = (Vec<Line>, T);

impl State {
    /// Takes over a line that is in the log.
    pub(super) fn apply(&mut self, line: Line) {
        match line {
            Line::Webhook(it) => {
                self.queues.entry(it.webhook.id.clone()).or_default();
                self.webhooks.insert(it.webhook.id.clone(), it);
            }
            Line::Removed(id) => {
                self.webhooks.remove(&id);
                for number in self.queues.remove(&id).unwrap_or_default().all {
                    self.deliveries.remove(&number);
                    self.due.remove(&number);
                }
            }
            Line::Delivery(it) => self.apply_delivery(it),
        }
    }

    fn apply_delivery(&mut self, it: StoredDelivery) {
        self.last_number = self.last_number.max(it.number);
        let Some(queue) = self.queues.get_mut(&it.webhook) else { return };
        queue.all.insert(it.number);
        queue.ids.insert(it.record.message.clone());
        if let Some(due) = self.due.remove(&it.number) {
            queue.by_due.remove(&(due, it.number));
        }
        if it.record.state == DeliveryState::Waiting {
            let due = it.record.next_at.unwrap_or(it.record.made_at);
            queue.waiting.insert(it.number);
            queue.by_due.insert((due, it.number));
            self.due.insert(it.number, due);
        } else {
            queue.waiting.remove(&it.number);
        }
        self.deliveries.insert(it.number, it);
    }

    pub(super) fn size(&self) -> usize {
        self.webhooks.len() + self.deliveries.len()
    }

    /// Returns all that the log must have.
    pub(super) fn lines(&self) -> Vec<Line> {
        let webhooks = self.webhooks.values().cloned().map(Line::Webhook);
        webhooks.chain(self.deliveries.values().cloned().map(Line::Delivery)).collect()
    }

    fn of(&self, tenant: &str, id: &str) -> Option<&StoredWebhook> {
        self.webhooks.get(id).filter(|it| it.webhook.tenant == tenant)
    }

    fn waiting_of(&self, webhook: &str) -> usize {
        self.queues.get(webhook).map_or(0, |queue| queue.waiting.len())
    }

    pub(super) fn tenants(&self) -> Vec<String> {
        let mut all: Vec<_> = self.webhooks.values().map(|it| it.webhook.tenant.clone()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    pub(super) fn add(&self, new: NewWebhook) -> Plan<Option<Webhook>> {
        if self.list(&new.tenant).len() >= MAX_WEBHOOKS {
            return (Vec::new(), None);
        }
        let NewWebhook { id, tenant, url, kinds, secret } = new;
        let webhook = Webhook {
            id,
            tenant,
            url,
            kinds,
            made_at: OffsetDateTime::now_utc(),
            failing_since: None,
            disabled: None,
        };
        changed(StoredWebhook { webhook, secret, previous: None })
    }

    pub(super) fn list(&self, tenant: &str) -> Vec<Webhook> {
        let all = self.webhooks.values().map(|it| &it.webhook);
        let mut found: Vec<_> = all.filter(|it| it.tenant == tenant).cloned().collect();
        found.sort_by(|a, b| (a.made_at, &a.id).cmp(&(b.made_at, &b.id)));
        found
    }

    pub(super) fn remove(&self, tenant: &str, id: &str) -> Plan<bool> {
        match self.of(tenant, id) {
            Some(_) => (vec![Line::Removed(id.to_owned())], true),
            None => (Vec::new(), false),
        }
    }

    pub(super) fn rotate(
        &self,
        tenant: &str,
        id: &str,
        secret: Secret,
        keep: Duration,
    ) -> Plan<Option<Webhook>> {
        let until = OffsetDateTime::now_utc() + keep;
        let Some(mut stored) = self.of(tenant, id).cloned() else { return (Vec::new(), None) };
        let old = std::mem::replace(&mut stored.secret, secret);
        stored.previous = Some(PreviousSecret { secret: old, until });
        changed(stored)
    }

    pub(super) fn enable(&self, tenant: &str, id: &str) -> Plan<Option<Webhook>> {
        let Some(mut stored) = self.of(tenant, id).cloned() else { return (Vec::new(), None) };
        stored.webhook.disabled = None;
        stored.webhook.failing_since = None;
        changed(stored)
    }

    /// Queues a message for every webhook that wants it and does not have it. A full queue
    /// disables its webhook.
    pub(super) fn announce(&self, tenant: &str, message: &Message) -> Plan<()> {
        let mut lines = Vec::new();
        let mut number = self.last_number;
        for (id, stored) in &self.webhooks {
            let hook = &stored.webhook;
            let is_wanted = hook.tenant == tenant
                && hook.disabled.is_none()
                && hook.kinds.contains(&message.kind);
            let is_known = self.queues.get(id).is_some_and(|it| it.ids.contains(&message.id));
            if !is_wanted || is_known {
                continue;
            }
            if self.waiting_of(id) >= MAX_QUEUE {
                let mut stored = stored.clone();
                stored.webhook.disabled = Some(DisabledReason::QueueFull);
                lines.push(Line::Webhook(stored));
            } else {
                number += 1;
                lines.push(Line::Delivery(waiting(number, id, message)));
            }
        }
        (lines, ())
    }

    pub(super) fn queue(&self, tenant: &str, id: &str, message: &Message) -> Plan<QueueOutcome> {
        let refused = match self.of(tenant, id) {
            None => QueueOutcome::NoWebhook,
            Some(stored) if stored.webhook.disabled.is_some() => QueueOutcome::Disabled,
            Some(_) if self.waiting_of(id) >= MAX_QUEUE => QueueOutcome::Full,
            Some(_) => {
                let stored = waiting(self.last_number + 1, id, message);
                let record = stored.record.clone();
                return (vec![Line::Delivery(stored)], QueueOutcome::Queued(record));
            }
        };
        (Vec::new(), refused)
    }

    pub(super) fn deliveries(
        &self,
        tenant: &str,
        id: &str,
        most: usize,
    ) -> Option<Vec<DeliveryRecord>> {
        self.of(tenant, id)?;
        let newest = self.queues.get(id)?.all.iter().rev().take(most);
        let found = newest.filter_map(|number| self.deliveries.get(number));
        Some(found.map(|it| it.record.clone()).collect())
    }

    /// Tenants take turns: the one after the tenant that was served last comes first.
    pub(super) fn claim(&mut self, most: usize, busy: &[String], lease: Duration) -> Vec<Claimed> {
        let now = OffsetDateTime::now_utc();
        let mut of_tenants = BTreeMap::<&str, Vec<(OffsetDateTime, u64)>>::new();
        for (id, stored) in &self.webhooks {
            let hook = &stored.webhook;
            if hook.disabled.is_some() || busy.contains(&hook.tenant) {
                continue;
            }
            let Some(queue) = self.queues.get(id) else { continue };
            let due = queue.by_due.iter().take_while(|(due, _)| *due <= now);
            let mut due = due.take(CLAIMED_OF_TENANT).copied().peekable();
            if due.peek().is_some() {
                of_tenants.entry(&hook.tenant).or_default().extend(due);
            }
        }
        let (before, after): (Vec<_>, Vec<_>) =
            of_tenants.into_iter().partition(|(tenant, _)| *tenant <= self.last_claimed.as_str());
        let mut numbers = Vec::new();
        let mut last = None;
        for (tenant, mut due) in after.into_iter().chain(before) {
            let left = most - numbers.len();
            if left == 0 {
                break;
            }
            due.sort_unstable();
            numbers.extend(due.iter().take(CLAIMED_OF_TENANT.min(left)).map(|(_, number)| *number));
            last = Some(tenant.to_owned());
        }
        if let Some(last) = last {
            self.last_claimed = last;
        }
        numbers.into_iter().filter_map(|number| self.claim_one(number, now, now + lease)).collect()
    }

    fn claim_one(
        &mut self,
        number: u64,
        now: OffsetDateTime,
        until: OffsetDateTime,
    ) -> Option<Claimed> {
        let it = self.deliveries.get_mut(&number)?;
        let hook = self.webhooks.get(&it.webhook)?;
        let queue = self.queues.get_mut(&it.webhook)?;
        if let Some(due) = self.due.insert(number, until) {
            queue.by_due.remove(&(due, number));
        }
        queue.by_due.insert((until, number));
        it.record.attempts += 1;
        let previous = hook.previous.as_ref().filter(|it| it.until > now);
        let secrets = [Some(&hook.secret), previous.map(|it| &it.secret)];
        Some(Claimed {
            number,
            attempt: it.record.attempts,
            tenant: hook.webhook.tenant.clone(),
            url: hook.webhook.url.clone(),
            secrets: secrets.into_iter().flatten().cloned().collect(),
            message: Message {
                id: it.record.message.clone(),
                kind: it.record.kind,
                body: it.body.clone(),
            },
            failing_since: hook.webhook.failing_since,
        })
    }

    pub(super) fn settle(&self, number: u64, attempt: u32, outcome: &Outcome) -> Plan<()> {
        let now = OffsetDateTime::now_utc();
        let is_current = |it: &&StoredDelivery| {
            it.record.attempts == attempt && it.record.state == DeliveryState::Waiting
        };
        let found = self.deliveries.get(&number).filter(is_current);
        let Some(mut it) = found.cloned() else { return (Vec::new(), ()) };
        let record = &mut it.record;
        match outcome {
            Outcome::Delivered { status } => {
                record.state = DeliveryState::Delivered;
                (record.status, record.error, record.next_at) = (Some(*status), None, None);
            }
            Outcome::Failed { status, error, retry_in, .. } => {
                (record.status, record.error) = (*status, Some(error.clone()));
                record.next_at = retry_in.map(|wait| now + wait);
                if retry_in.is_none() {
                    record.state = DeliveryState::Failed;
                }
            }
        }
        if record.state != DeliveryState::Waiting {
            it.ended_at = Some(now);
        }
        let hook = self.webhooks.get(&it.webhook);
        let mut lines = vec![Line::Delivery(it)];
        if let Some(before) = hook {
            let mut hook = before.clone();
            match outcome {
                Outcome::Delivered { .. } => hook.webhook.failing_since = None,
                Outcome::Failed { disable, .. } => {
                    hook.webhook.failing_since = hook.webhook.failing_since.or(Some(now));
                    hook.webhook.disabled = hook.webhook.disabled.or(*disable);
                }
            }
            if hook.webhook != before.webhook {
                lines.push(Line::Webhook(hook));
            }
        }
        (lines, ())
    }

    /// Ends some of what waits for disabled webhooks.
    pub(super) fn sweep(&self) -> Plan<()> {
        let now = OffsetDateTime::now_utc();
        let disabled = self.webhooks.values().filter(|it| it.webhook.disabled.is_some());
        let queues = disabled.filter_map(|it| self.queues.get(&it.webhook.id));
        let numbers = queues.flat_map(|queue| &queue.waiting).take(SWEEP_STEP);
        let ended = numbers.filter_map(|number| {
            let mut it = self.deliveries.get(number)?.clone();
            it.record.state = DeliveryState::Failed;
            it.record.error = Some(DISABLED_ERROR.to_owned());
            it.record.next_at = None;
            it.ended_at = Some(now);
            Some(Line::Delivery(it))
        });
        (ended.collect(), ())
    }

    pub(super) fn waiting(&self) -> (u64, Duration) {
        let enabled = self.webhooks.values().filter(|it| it.webhook.disabled.is_none());
        let (mut count, mut oldest) = (0, None::<OffsetDateTime>);
        for queue in enabled.filter_map(|it| self.queues.get(&it.webhook.id)) {
            count += queue.waiting.len() as u64;
            // Numbers grow with time.
            let first = queue.waiting.first().and_then(|number| self.deliveries.get(number));
            let made_at = first.map(|it| it.record.made_at);
            oldest = [oldest, made_at].into_iter().flatten().min();
        }
        let age = oldest.map(|at| OffsetDateTime::now_utc() - at);
        (count, age.and_then(|age| Duration::try_from(age).ok()).unwrap_or_default())
    }

    /// Drops messages that ended longer ago from memory. The log loses them when it is rewritten.
    pub(super) fn forget(&mut self, longer_ago: Duration) {
        let before = OffsetDateTime::now_utc() - longer_ago;
        for (number, it) in
            self.deliveries.extract_if(.., |_, it| it.ended_at.is_some_and(|at| at < before))
        {
            if let Some(queue) = self.queues.get_mut(&it.webhook) {
                queue.all.remove(&number);
                queue.ids.remove(&it.record.message);
            }
        }
    }
}

fn changed(stored: StoredWebhook) -> Plan<Option<Webhook>> {
    let webhook = stored.webhook.clone();
    (vec![Line::Webhook(stored)], Some(webhook))
}

fn waiting(number: u64, webhook: &str, message: &Message) -> StoredDelivery {
    let now = OffsetDateTime::now_utc();
    let record = DeliveryRecord {
        message: message.id.clone(),
        kind: message.kind,
        state: DeliveryState::Waiting,
        attempts: 0,
        made_at: now,
        next_at: Some(now),
        status: None,
        error: None,
    };
    let (webhook, body) = (webhook.to_owned(), message.body.clone());
    StoredDelivery { number, webhook, record, body, ended_at: None }
}
