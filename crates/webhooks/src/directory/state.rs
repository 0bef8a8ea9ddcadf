//! The webhooks and messages of a server, with the log behind them.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use time::OffsetDateTime;

use super::log::{Line, Log, PreviousSecret, StoredDelivery, StoredWebhook};
use crate::event::Message;
use crate::shelf::{
    CLAIMED_OF_TENANT, Claimed, DeliveryRecord, DeliveryState, DisabledReason, MAX_QUEUE,
    MAX_WEBHOOKS, NewWebhook, Outcome, Webhook,
};
use crate::sign::Secret;

/// Lines of the log beyond what is alive, before the log is written anew.
const SLACK: usize = 10_000;
/// An event was announced at most so long after it was written down.
const ANNOUNCED_WITHIN: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct State {
    log: Log,
    webhooks: BTreeMap<String, StoredWebhook>,
    deliveries: BTreeMap<u64, StoredDelivery>,
    /// Ends of the leases of messages that are being sent.
    leases: BTreeMap<u64, OffsetDateTime>,
    next: u64,
}

impl State {
    pub(super) fn open(root: &Path) -> io::Result<(Self, OffsetDateTime)> {
        let (lines, written) = Log::read(root)?;
        let (mut webhooks, mut deliveries) = (BTreeMap::new(), BTreeMap::new());
        for line in lines {
            match line {
                Line::Webhook(it) => drop(webhooks.insert(it.webhook.id.clone(), it)),
                Line::Removed(id) => drop(webhooks.remove(&id)),
                Line::Delivery(it) => drop(deliveries.insert(it.number, it)),
            }
        }
        deliveries.retain(|_, it: &mut StoredDelivery| webhooks.contains_key(&it.webhook));
        let next = deliveries.keys().next_back().map_or(1, |last| last + 1);
        let log = Log::write_anew(root, &alive(&webhooks, &deliveries))?;
        let written = written.unwrap_or_else(OffsetDateTime::now_utc) - ANNOUNCED_WITHIN;
        Ok((Self { log, webhooks, deliveries, leases: BTreeMap::new(), next }, written))
    }

    fn write(&mut self, lines: &[Line]) -> io::Result<()> {
        self.log.append(lines)?;
        let alive_now = self.webhooks.len() + self.deliveries.len();
        if self.log.lines() > alive_now + SLACK {
            let root = self.log.root().to_owned();
            self.log = Log::write_anew(&root, &alive(&self.webhooks, &self.deliveries))?;
        }
        Ok(())
    }

    fn of(&mut self, tenant: &str, id: &str) -> Option<&mut StoredWebhook> {
        self.webhooks.get_mut(id).filter(|it| it.webhook.tenant == tenant)
    }

    pub(super) fn tenants(&self) -> Vec<String> {
        let mut all: Vec<_> = self.webhooks.values().map(|it| it.webhook.tenant.clone()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    pub(super) fn add(&mut self, new: NewWebhook) -> io::Result<Option<Webhook>> {
        if self.list(&new.tenant).len() >= MAX_WEBHOOKS {
            return Ok(None);
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
        let stored = StoredWebhook { webhook: webhook.clone(), secret, previous: None };
        self.webhooks.insert(webhook.id.clone(), stored.clone());
        self.write(&[Line::Webhook(stored)])?;
        Ok(Some(webhook))
    }

    pub(super) fn list(&self, tenant: &str) -> Vec<Webhook> {
        let all = self.webhooks.values().map(|it| &it.webhook);
        let mut found: Vec<_> = all.filter(|it| it.tenant == tenant).cloned().collect();
        found.sort_by(|a, b| (a.made_at, &a.id).cmp(&(b.made_at, &b.id)));
        found
    }

    pub(super) fn remove(&mut self, tenant: &str, id: &str) -> io::Result<bool> {
        if self.of(tenant, id).is_none() {
            return Ok(false);
        }
        self.webhooks.remove(id);
        self.deliveries.retain(|_, it| it.webhook != id);
        self.write(&[Line::Removed(id.to_owned())])?;
        Ok(true)
    }

    pub(super) fn rotate(
        &mut self,
        tenant: &str,
        id: &str,
        secret: Secret,
        keep: Duration,
    ) -> io::Result<Option<Webhook>> {
        let until = OffsetDateTime::now_utc() + keep;
        let Some(stored) = self.of(tenant, id) else { return Ok(None) };
        let old = std::mem::replace(&mut stored.secret, secret);
        stored.previous = Some(PreviousSecret { secret: old, until });
        let stored = stored.clone();
        let webhook = stored.webhook.clone();
        self.write(&[Line::Webhook(stored)])?;
        Ok(Some(webhook))
    }

    pub(super) fn enable(&mut self, tenant: &str, id: &str) -> io::Result<Option<Webhook>> {
        let Some(stored) = self.of(tenant, id) else { return Ok(None) };
        stored.webhook.disabled = None;
        stored.webhook.failing_since = None;
        let stored = stored.clone();
        let webhook = stored.webhook.clone();
        self.write(&[Line::Webhook(stored)])?;
        Ok(Some(webhook))
    }

    /// Queues a message for every webhook that wants it and does not have it.
    pub(super) fn announce(&mut self, tenant: &str, message: &Message) -> io::Result<()> {
        let wants = |it: &&StoredWebhook| {
            let hook = &it.webhook;
            hook.tenant == tenant && hook.disabled.is_none() && hook.kinds.contains(&message.kind)
        };
        let ids: Vec<_> =
            self.webhooks.values().filter(wants).map(|it| it.webhook.id.clone()).collect();
        let mut lines = Vec::new();
        for id in ids {
            let known = |it: &StoredDelivery| it.webhook == id && it.record.message == message.id;
            if self.deliveries.values().any(known) {
                continue;
            }
            let of_it = self.deliveries.values().filter(|it| it.webhook == id);
            let waits = |it: &&StoredDelivery| it.record.state == DeliveryState::Waiting;
            if of_it.filter(waits).count() >= MAX_QUEUE {
                if let Some(stored) = self.webhooks.get_mut(&id) {
                    stored.webhook.disabled = Some(DisabledReason::QueueFull);
                    lines.push(Line::Webhook(stored.clone()));
                }
                continue;
            }
            lines.push(Line::Delivery(self.push(&id, message)));
        }
        if lines.is_empty() { Ok(()) } else { self.write(&lines) }
    }

    fn push(&mut self, webhook: &str, message: &Message) -> StoredDelivery {
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
        let (number, webhook, body) = (self.next, webhook.to_owned(), message.body.clone());
        self.next += 1;
        let stored = StoredDelivery { number, webhook, record, body, ended_at: None };
        self.deliveries.insert(number, stored.clone());
        stored
    }

    pub(super) fn queue(
        &mut self,
        tenant: &str,
        id: &str,
        message: &Message,
    ) -> io::Result<Option<DeliveryRecord>> {
        if self.of(tenant, id).is_none() {
            return Ok(None);
        }
        let stored = self.push(id, message);
        let record = stored.record.clone();
        self.write(&[Line::Delivery(stored)])?;
        Ok(Some(record))
    }

    pub(super) fn deliveries(
        &self,
        tenant: &str,
        id: &str,
        most: usize,
    ) -> Option<Vec<DeliveryRecord>> {
        self.webhooks.get(id).filter(|it| it.webhook.tenant == tenant)?;
        let newest = self.deliveries.values().rev().filter(|it| it.webhook == id);
        Some(newest.take(most).map(|it| it.record.clone()).collect())
    }

    pub(super) fn claim(&mut self, most: usize, busy: &[String], lease: Duration) -> Vec<Claimed> {
        let now = OffsetDateTime::now_utc();
        let (mut claimed, mut of_tenants) = (Vec::new(), BTreeMap::<String, usize>::new());
        for (number, it) in &mut self.deliveries {
            if claimed.len() >= most {
                break;
            }
            let is_due = it.record.state == DeliveryState::Waiting
                && it.record.next_at.is_none_or(|at| at <= now)
                && self.leases.get(number).is_none_or(|until| *until <= now);
            let Some(hook) = self.webhooks.get(&it.webhook).filter(|_| is_due) else { continue };
            let tenant = &hook.webhook.tenant;
            let count = of_tenants.entry(tenant.clone()).or_default();
            if hook.webhook.disabled.is_some()
                || busy.contains(tenant)
                || *count >= CLAIMED_OF_TENANT
            {
                continue;
            }
            *count += 1;
            it.record.attempts += 1;
            self.leases.insert(*number, now + lease);
            let previous = hook.previous.as_ref().filter(|it| it.until > now);
            let secrets = [Some(&hook.secret), previous.map(|it| &it.secret)];
            claimed.push(Claimed {
                number: *number,
                attempt: it.record.attempts,
                tenant: tenant.clone(),
                url: hook.webhook.url.clone(),
                secrets: secrets.into_iter().flatten().cloned().collect(),
                message: Message {
                    id: it.record.message.clone(),
                    kind: it.record.kind,
                    body: it.body.clone(),
                },
                failing_since: hook.webhook.failing_since,
            });
        }
        claimed
    }

    pub(super) fn settle(
        &mut self,
        number: u64,
        attempt: u32,
        outcome: &Outcome,
    ) -> io::Result<()> {
        let now = OffsetDateTime::now_utc();
        let Some(it) = self.deliveries.get_mut(&number) else { return Ok(()) };
        if it.record.attempts != attempt || it.record.state != DeliveryState::Waiting {
            return Ok(());
        }
        self.leases.remove(&number);
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
        let mut lines = vec![Line::Delivery(it.clone())];
        let webhook = it.webhook.clone();
        if let Some(hook) = self.webhooks.get_mut(&webhook) {
            let before = hook.webhook.clone();
            match outcome {
                Outcome::Delivered { .. } => hook.webhook.failing_since = None,
                Outcome::Failed { disable, .. } => {
                    hook.webhook.failing_since = hook.webhook.failing_since.or(Some(now));
                    hook.webhook.disabled = hook.webhook.disabled.or(*disable);
                }
            }
            if hook.webhook != before {
                lines.push(Line::Webhook(hook.clone()));
            }
        }
        self.write(&lines)
    }

    pub(super) fn waiting(&self) -> (u64, Duration) {
        let now = OffsetDateTime::now_utc();
        let is_enabled =
            |id: &str| self.webhooks.get(id).is_some_and(|it| it.webhook.disabled.is_none());
        let waits = |it: &&StoredDelivery| {
            it.record.state == DeliveryState::Waiting && is_enabled(&it.webhook)
        };
        let waiting: Vec<_> = self.deliveries.values().filter(waits).collect();
        let oldest = waiting.iter().map(|it| it.record.made_at).min();
        let age = oldest.and_then(|at| Duration::try_from(now - at).ok()).unwrap_or_default();
        (waiting.len() as u64, age)
    }

    pub(super) fn forget(&mut self, longer_ago: Duration) -> io::Result<()> {
        let before = OffsetDateTime::now_utc() - longer_ago;
        self.deliveries.retain(|_, it| it.ended_at.is_none_or(|at| at >= before));
        self.write(&[])
    }
}

fn alive(
    webhooks: &BTreeMap<String, StoredWebhook>,
    deliveries: &BTreeMap<u64, StoredDelivery>,
) -> Vec<Line> {
    let webhooks = webhooks.values().cloned().map(Line::Webhook);
    webhooks.chain(deliveries.values().cloned().map(Line::Delivery)).collect()
}
