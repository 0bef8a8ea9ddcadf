//! Messages to webhooks are written with the change that they tell of.

use std::sync::Arc;
use std::time::{Duration, Instant};

use belljar_domain::{EndReason, RunId};
use belljar_journal::event::{CallRef, Finished, Outcome as RunOutcome, PausePoint, Paused};
use belljar_journal::{Address, Journal as _, MOST_INLINE_BYTES, NewEvent};
use belljar_store::{SecretSeal, Store};
use belljar_testkit::Postgres;
use belljar_webhooks::{
    CLAIMED_OF_TENANT, Claimed, DISABLED_ERROR, DeliveryState, DisabledReason, EventKind,
    MAX_QUEUE, MAX_WEBHOOKS, Message, NewWebhook, Outcome, QueueOutcome, SWEEP_STEP, Secret,
    Shelf as _,
};
use time::OffsetDateTime;

use super::{LEASE, LIFE, id, node, running, runs::begun, store, store_at};

const SANDBOXES: [EventKind; 4] = [
    EventKind::SandboxCreated,
    EventKind::SandboxPaused,
    EventKind::SandboxResumed,
    EventKind::SandboxEnded,
];

fn new(tenant: &str, number: u8, kinds: &[EventKind]) -> NewWebhook {
    NewWebhook {
        id: format!("wh_{number:032x}"),
        tenant: tenant.to_owned(),
        url: "https://hooks.example.com/".to_owned(),
        kinds: kinds.to_vec(),
        secret: Secret::generate().unwrap(),
    }
}

async fn claim(store: &Store, lease: Duration) -> Vec<Claimed> {
    let mut claimed = store.webhooks().claim(64, &[], lease).await.unwrap();
    claimed.sort_by_key(|it| it.number);
    claimed
}

/// Everything that waits, claimed and settled as delivered.
async fn drain(store: &Store) -> Vec<Claimed> {
    let mut all = Vec::new();
    loop {
        let claimed = claim(store, LEASE).await;
        if claimed.is_empty() {
            return all;
        }
        for it in &claimed {
            let done = Outcome::Delivered { status: 200 };
            store.webhooks().settle(it, &done).await.unwrap();
        }
        all.extend(claimed);
    }
}

/// Each lifecycle event of a sandbox is one message to its tenant's webhooks, and to no other.
#[tokio::test]
async fn sandbox_events_are_messages_of_their_tenant() {
    let store = store().await;
    let hooks = store.webhooks();
    hooks.add(&new("ann", 1, &SANDBOXES)).await.unwrap().unwrap();
    hooks.add(&new("bob", 2, &SANDBOXES)).await.unwrap().unwrap();
    hooks.add(&new("ann", 3, &[EventKind::RunEnded])).await.unwrap().unwrap();
    let node = node(&store, "one", LEASE).await;
    let epoch = running(&store, "ann", 1, node).await;
    let sandbox = id(1);
    store.paused("ann", &sandbox, epoch).await.unwrap();
    store.resumed("ann", &sandbox, epoch, LIFE).await.unwrap();
    // A change that was made already is not announced again.
    store.resumed("ann", &sandbox, epoch, LIFE).await.unwrap();
    store.end("ann", &sandbox, None, EndReason::Killed).await.unwrap();
    store.end("ann", &sandbox, None, EndReason::Killed).await.unwrap();
    let all = drain(&store).await;
    let kinds: Vec<_> = all.iter().map(|it| it.message.kind).collect();
    assert_eq!(kinds, SANDBOXES);
    assert!(all.iter().all(|it| it.tenant == "ann" && it.message.body.contains(sandbox.as_str())));
    assert!(all[3].message.body.contains("\"reason\" : \"killed\""), "{}", all[3].message.body);
    let value: serde_json::Value = serde_json::from_str(&all[0].message.body).unwrap();
    assert_eq!(value["type"], "sandbox.created");
}

#[tokio::test]
async fn a_new_run_is_a_message() {
    let store = store().await;
    let kinds = [EventKind::RunCreated];
    store.webhooks().add(&new("ann", 1, &kinds)).await.unwrap().unwrap();
    let address = Address { tenant: "ann".to_owned(), run: RunId::from_bits([1; 16]) };
    begun(&store, &address).await;
    let all = drain(&store).await;
    assert_eq!(all.len(), 1);
    assert!(all[0].message.body.contains(address.run.as_str()));
    assert!(!all[0].message.body.contains("why?"), "a message has no question");
}

/// A message whose worker died is claimed again, and the result of the dead one is refused.
#[tokio::test]
async fn a_claim_ends_with_its_lease() {
    let store = store().await;
    let hooks = store.webhooks();
    hooks.add(&new("ann", 1, &SANDBOXES)).await.unwrap().unwrap();
    let node = node(&store, "one", LEASE).await;
    running(&store, "ann", 1, node).await;
    let first = claim(&store, Duration::ZERO).await;
    let second = claim(&store, LEASE).await;
    assert_eq!((first.len(), second.len()), (1, 1));
    assert_eq!((first[0].attempt, second[0].attempt), (1, 2));
    assert!(claim(&store, LEASE).await.is_empty());
    let failed = Outcome::Failed {
        status: Some(500),
        error: "no".to_owned(),
        retry_in: None,
        disable: Some(DisabledReason::Gone),
    };
    hooks.settle(&first[0], &failed).await.unwrap();
    hooks.settle(&second[0], &Outcome::Delivered { status: 200 }).await.unwrap();
    let known = hooks.deliveries("ann", &new("ann", 1, &[]).id, 9).await.unwrap().unwrap();
    assert_eq!((known[0].state, known[0].attempts), (DeliveryState::Delivered, 2));
    assert_eq!(hooks.list("ann").await.unwrap()[0].disabled, None);
    assert_eq!(hooks.waiting().await.unwrap().0, 0);
}

#[tokio::test]
async fn a_disabled_webhook_is_not_called_until_it_is_enabled() {
    let store = store().await;
    let hooks = store.webhooks();
    let hook = new("ann", 1, &SANDBOXES);
    hooks.add(&hook).await.unwrap().unwrap();
    let node = node(&store, "one", LEASE).await;
    running(&store, "ann", 1, node).await;
    let claimed = claim(&store, LEASE).await;
    let failed = Outcome::Failed {
        status: Some(410),
        error: "gone".to_owned(),
        retry_in: Some(Duration::ZERO),
        disable: Some(DisabledReason::Gone),
    };
    hooks.settle(&claimed[0], &failed).await.unwrap();
    let shown = hooks.list("ann").await.unwrap();
    assert_eq!(shown[0].disabled, Some(DisabledReason::Gone));
    assert!(shown[0].failing_since.is_some());
    assert!(claim(&store, LEASE).await.is_empty());
    assert!(hooks.enable("bob", &hook.id).await.unwrap().is_none());
    assert_eq!(hooks.enable("ann", &hook.id).await.unwrap().unwrap().disabled, None);
    assert_eq!(claim(&store, LEASE).await.len(), 1);
    // Rotated: both secrets sign.
    let fresh = Secret::generate().unwrap();
    assert!(hooks.rotate("bob", &hook.id, &fresh, LEASE).await.unwrap().is_none());
    hooks.rotate("ann", &hook.id, &fresh, LEASE).await.unwrap().unwrap();
    store.end("ann", &id(1), None, EndReason::Killed).await.unwrap();
    assert_eq!(claim(&store, LEASE).await[0].secrets, [fresh, hook.secret.clone()]);
    assert!(!hooks.remove("bob", &hook.id).await.unwrap());
    assert!(hooks.remove("ann", &hook.id).await.unwrap());
}

#[tokio::test]
async fn a_tenant_has_only_so_many_webhooks() {
    let store = store().await;
    for number in 0..MAX_WEBHOOKS {
        let number = u8::try_from(number).unwrap();
        assert!(store.webhooks().add(&new("ann", number, &SANDBOXES)).await.unwrap().is_some());
    }
    assert!(store.webhooks().add(&new("ann", 99, &SANDBOXES)).await.unwrap().is_none());
    assert!(store.webhooks().add(&new("bob", 100, &SANDBOXES)).await.unwrap().is_some());
}

/// A store, and the name of its schema.
async fn store_and_schema() -> (Store, String) {
    let url = Postgres::shared().schema();
    let schema = url.rsplit('=').next().unwrap().to_owned();
    (store_at(&url).await, schema)
}

/// Puts messages into the queue of a webhook at once.
fn fill(schema: &str, webhook: &str, tenant: &str, count: usize) {
    let sql = format!(
        "insert into {schema}.webhook_delivery (webhook, tenant, message, kind, body, due_at)
         select '{webhook}', '{tenant}', 'msg_' || n, 'sandbox.created', '{{}}',
                now() - interval '1 hour'
         from generate_series(1, {count}) n;
         analyze {schema}.webhook_delivery"
    );
    Postgres::shared().run(&sql).unwrap();
}

fn test_message(id: &str) -> Message {
    let now = OffsetDateTime::now_utc();
    Message::new(id.to_owned(), EventKind::Test, now, serde_json::Map::new())
}

/// A change of state neither waits for a request that deletes a webhook nor fails with it.
#[tokio::test]
async fn a_delete_in_progress_does_not_delay_a_change() {
    let (store, schema) = store_and_schema().await;
    let hook = new("ann", 1, &SANDBOXES);
    store.webhooks().add(&hook).await.unwrap().unwrap();
    let node = node(&store, "one", LEASE).await;
    let epoch = running(&store, "ann", 1, node).await;
    let sql = format!(
        "begin; delete from {schema}.webhook where id = '{}'; select pg_sleep(8); commit",
        hook.id
    );
    let deleting = tokio::task::spawn_blocking(move || Postgres::shared().run(&sql).unwrap());
    tokio::time::sleep(Duration::from_secs(1)).await;
    store.paused("ann", &id(1), epoch).await.unwrap();
    assert!(!deleting.is_finished(), "the change waited for the request");
    deleting.await.unwrap();
    store.end("ann", &id(1), None, EndReason::Killed).await.unwrap();
    assert!(claim(&store, LEASE).await.is_empty());
    // Messages for a webhook that is gone are removed.
    store.webhooks().forget(LIFE).await.unwrap();
    store.webhooks().add(&hook).await.unwrap().unwrap();
    assert!(store.webhooks().deliveries("ann", &hook.id, 9).await.unwrap().unwrap().is_empty());
}

#[tokio::test]
async fn a_test_is_refused_by_a_full_queue_and_a_disabled_webhook() {
    let (store, schema) = store_and_schema().await;
    let hooks = store.webhooks();
    let hook = new("ann", 1, &SANDBOXES);
    hooks.add(&hook).await.unwrap().unwrap();
    let unknown = hooks.queue("bob", &hook.id, &test_message("msg_x")).await.unwrap();
    assert_eq!(unknown, QueueOutcome::NoWebhook);
    fill(&schema, &hook.id, "ann", MAX_QUEUE - 1);
    let last = hooks.queue("ann", &hook.id, &test_message("msg_a")).await.unwrap();
    assert!(matches!(last, QueueOutcome::Queued(_)), "{last:?}");
    let full = hooks.queue("ann", &hook.id, &test_message("msg_b")).await.unwrap();
    assert_eq!(full, QueueOutcome::Full);
    hooks.sweep().await.unwrap();
    let disabled = hooks.queue("ann", &hook.id, &test_message("msg_c")).await.unwrap();
    assert_eq!(disabled, QueueOutcome::Disabled);
}

/// The change itself counts nothing. The worker disables the webhook and ends what waits, in
/// bounded steps.
#[tokio::test]
async fn a_full_queue_is_swept_by_the_worker() {
    let (store, schema) = store_and_schema().await;
    let hooks = store.webhooks();
    let hook = new("ann", 1, &SANDBOXES);
    hooks.add(&hook).await.unwrap().unwrap();
    fill(&schema, &hook.id, "ann", MAX_QUEUE);
    let node = node(&store, "one", LEASE).await;
    running(&store, "ann", 1, node).await;
    let shown = hooks.list("ann").await.unwrap();
    assert_eq!(shown[0].disabled, None, "the change disabled it");
    assert_eq!(hooks.waiting().await.unwrap().0, MAX_QUEUE as u64 + 1);
    hooks.sweep().await.unwrap();
    assert_eq!(hooks.list("ann").await.unwrap()[0].disabled, Some(DisabledReason::QueueFull));
    let known = hooks.deliveries("ann", &hook.id, MAX_QUEUE * 2).await.unwrap().unwrap();
    let ended = known.iter().filter(|it| it.state == DeliveryState::Failed);
    assert_eq!(ended.clone().count(), SWEEP_STEP);
    assert!(ended.clone().all(|it| it.error.as_deref() == Some(DISABLED_ERROR)));
    for _ in 0..=MAX_QUEUE / SWEEP_STEP {
        hooks.sweep().await.unwrap();
    }
    hooks.enable("ann", &hook.id).await.unwrap().unwrap();
    assert_eq!(hooks.waiting().await.unwrap().0, 0);
    assert!(claim(&store, LEASE).await.is_empty());
    hooks.forget(Duration::ZERO).await.unwrap();
    assert!(hooks.deliveries("ann", &hook.id, 9).await.unwrap().unwrap().is_empty());
}

/// A claim does not read what waits for disabled webhooks.
#[tokio::test]
async fn a_disabled_backlog_does_not_slow_a_claim() {
    let (store, schema) = store_and_schema().await;
    let hooks = store.webhooks();
    let (dead, live) = (new("ann", 1, &SANDBOXES), new("ann", 2, &SANDBOXES));
    hooks.add(&dead).await.unwrap().unwrap();
    hooks.add(&live).await.unwrap().unwrap();
    let free = fastest_claim(&store, &live.id, "free").await;
    fill(&schema, &dead.id, "ann", 200_000);
    let sql = format!("update {schema}.webhook set disabled = 'gone' where id = '{}'", dead.id);
    Postgres::shared().run(&sql).unwrap();
    let beside = fastest_claim(&store, &live.id, "beside").await;
    // A claim that reads the backlog takes 60 times as long.
    assert!(beside < free * 10, "{free:?} without a backlog, {beside:?} beside one");
}

/// The shortest of ten claims of one message each.
async fn fastest_claim(store: &Store, hook: &str, prefix: &str) -> Duration {
    let mut fastest = Duration::MAX;
    for number in 0..10 {
        let message = test_message(&format!("msg_{prefix}_{number}"));
        store.webhooks().queue("ann", hook, &message).await.unwrap();
        let begin = Instant::now();
        let claimed = claim(store, LEASE).await;
        fastest = fastest.min(begin.elapsed());
        assert_eq!(claimed.len(), 1);
        assert_eq!(claimed[0].message.id, message.id);
    }
    fastest
}

/// A tenant with a long queue gets a few places of a claim; none of many tenants is left out.
#[tokio::test]
async fn every_tenant_has_its_turn() {
    let (store, schema) = store_and_schema().await;
    let hooks = store.webhooks();
    for number in 1..=12 {
        let tenant = format!("tenant-{number}");
        store.put_tenant(&tenant, None, super::QUOTA).await.unwrap();
        let hook = new(&tenant, number, &SANDBOXES);
        hooks.add(&hook).await.unwrap().unwrap();
        fill(&schema, &hook.id, &tenant, 100);
    }
    let all = hooks.claim(64, &[], LEASE).await.unwrap();
    assert!(all.len() >= 12 * CLAIMED_OF_TENANT);
    // Four places at a time: in the order of their names, the first would have all of them.
    let mut served = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let some = hooks.claim(CLAIMED_OF_TENANT, &[], LEASE).await.unwrap();
        assert_eq!(some.len(), CLAIMED_OF_TENANT);
        served.extend(some.into_iter().map(|it| it.tenant));
    }
    assert!(served.len() > 3, "{served:?}");
}

/// An event whose body is a blob tells the same facts.
#[tokio::test]
async fn a_long_event_keeps_its_facts() {
    let store = store().await;
    let kinds = [EventKind::RunWaiting, EventKind::RunEnded];
    store.webhooks().add(&new("ann", 1, &kinds)).await.unwrap().unwrap();
    let address = Address { tenant: "ann".to_owned(), run: RunId::from_bits([1; 16]) };
    begun(&store, &address).await;
    let runs = store.runs();
    let lease = runs.claim(&address, "w", LIFE).await.unwrap();
    let long = "x".repeat(2 * MOST_INLINE_BYTES);
    let call = CallRef { turn: 1, id: "one".to_owned() };
    let at = Some(PausePoint::Question { call, text: long.clone() });
    let head = runs.find(&address).await.unwrap().head;
    let paused = NewEvent::new(Paused { answers: None, at }).seen(head);
    runs.append(&lease, paused).await.unwrap();
    let result = Some(long);
    let outcome = RunOutcome::Answered;
    let finished = Finished { outcome, error: None, message: None, result };
    let head = runs.find(&address).await.unwrap().head;
    runs.append(&lease, NewEvent::new(finished).seen(head)).await.unwrap();
    let all = drain(&store).await;
    let told: Vec<_> = all.iter().map(|it| it.message.kind).collect();
    assert_eq!(told, kinds);
    assert!(all[1].message.body.contains("\"outcome\" : \"answered\""), "{}", all[1].message.body);
}

/// A key of one byte, which is enough to tell a sealed secret from a plain one.
#[derive(Debug)]
struct Keys(Vec<u8>);

impl Keys {
    fn open_with(key: u8, context: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let plain = sealed.strip_prefix(&[key])?.strip_prefix(context)?;
        Some(plain.iter().map(|byte| byte ^ key).collect())
    }
}

impl SecretSeal for Keys {
    fn seal(&self, context: &[u8], plain: &[u8]) -> Option<Vec<u8>> {
        let key = *self.0.first()?;
        let text: Vec<u8> = plain.iter().map(|byte| byte ^ key).collect();
        Some([&[key][..], context, &text].concat())
    }

    fn open(&self, context: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        self.0.iter().find_map(|key| Self::open_with(*key, context, sealed))
    }

    fn is_current(&self, context: &[u8], sealed: &[u8]) -> bool {
        self.0.first().is_some_and(|key| Self::open_with(*key, context, sealed).is_some())
    }
}

/// The secrets that are readable in the table, by looking for their bytes in it.
fn readable(url: &str, secrets: &[&Secret]) -> usize {
    let mut found = 0;
    for secret in secrets {
        let hex: String = secret.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let schema = url.rsplit('=').next().unwrap();
        let sql = format!(
            "do $$ begin if not exists (select from {schema}.webhook
               where position('\\x{hex}'::bytea in secret) > 0
                  or position('\\x{hex}'::bytea in previous_secret) > 0)
             then raise exception 'not readable'; end if; end $$"
        );
        found += usize::from(Postgres::shared().run(&sql).is_ok());
    }
    found
}

/// Requirements: P3
#[tokio::test]
async fn secrets_are_sealed_and_old_ones_are_sealed_later() {
    let url = Postgres::shared().schema();
    let store = store_at(&url).await;
    let (old, new_one) = (new("ann", 1, &SANDBOXES), new("ann", 2, &SANDBOXES));
    // An older version wrote one, and rotated it.
    let plain = store.webhooks();
    plain.add(&old).await.unwrap().unwrap();
    let rotated = Secret::generate().unwrap();
    plain.rotate("ann", &old.id, &rotated, LIFE).await.unwrap().unwrap();
    let first = store.webhooks().sealed_by(Arc::new(Keys(vec![7])));
    first.add(&new_one).await.unwrap().unwrap();
    let all = [&old.secret, &rotated, &new_one.secret];
    assert_eq!(readable(&url, &all), 2);
    first.forget(LIFE).await.unwrap();
    assert_eq!(readable(&url, &all), 0);
    // They sign as before. A new key replaces the old one, and opens nothing without it.
    let secrets = async |keys: Vec<u8>, message: &str| {
        let hooks = store.webhooks().sealed_by(Arc::new(Keys(keys)));
        for hook in [&old, &new_one] {
            let message = test_message(&format!("{message}_{}", hook.id));
            hooks.queue("ann", &hook.id, &message).await.unwrap();
        }
        let mut claimed = hooks.claim(64, &[], LEASE).await.unwrap();
        claimed.sort_by_key(|it| it.number);
        claimed.into_iter().map(|it| it.secrets).collect::<Vec<_>>()
    };
    let expected = vec![vec![rotated.clone(), old.secret.clone()], vec![new_one.secret.clone()]];
    assert_eq!(secrets(vec![7], "msg_a").await, expected);
    assert!(secrets(vec![9], "msg_b").await.is_empty());
    let both = store.webhooks().sealed_by(Arc::new(Keys(vec![9, 7])));
    both.forget(LIFE).await.unwrap();
    assert_eq!(secrets(vec![9], "msg_c").await, expected);
    // Rotated under the new key.
    let third = Secret::generate().unwrap();
    both.rotate("ann", &new_one.id, &third, LIFE).await.unwrap().unwrap();
    let expected = vec![vec![rotated, old.secret.clone()], vec![third, new_one.secret.clone()]];
    assert_eq!(secrets(vec![9], "msg_d").await, expected);
}

/// A replica with another key looks at a message and cannot sign it: that is no attempt to send it.
#[tokio::test]
async fn a_secret_that_is_not_opened_costs_no_attempt() {
    let store = store().await;
    let hook = new("ann", 1, &SANDBOXES);
    let right = store.webhooks().sealed_by(Arc::new(Keys(vec![7])));
    let wrong = store.webhooks().sealed_by(Arc::new(Keys(vec![9])));
    right.add(&hook).await.unwrap().unwrap();
    right.queue("ann", &hook.id, &test_message("msg_a")).await.unwrap();
    for _ in 0..20 {
        assert!(wrong.claim(64, &[], Duration::ZERO).await.unwrap().is_empty());
    }
    let known = right.deliveries("ann", &hook.id, 9).await.unwrap().unwrap();
    assert_eq!((known[0].state, known[0].attempts), (DeliveryState::Waiting, 0));
    // It waits as long as a claimed one: the replica does not look at it all the time.
    assert!(wrong.claim(64, &[], Duration::from_secs(2)).await.unwrap().is_empty());
    assert!(right.claim(64, &[], LEASE).await.unwrap().is_empty());
    let mut claimed = Vec::new();
    for _ in 0..100 {
        claimed = right.claim(64, &[], LEASE).await.unwrap();
        if !claimed.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!((claimed.len(), claimed[0].attempt), (1, 1));
    right.settle(&claimed[0], &Outcome::Delivered { status: 200 }).await.unwrap();
    let known = right.deliveries("ann", &hook.id, 9).await.unwrap().unwrap();
    assert_eq!((known[0].state, known[0].attempts), (DeliveryState::Delivered, 1));
}
