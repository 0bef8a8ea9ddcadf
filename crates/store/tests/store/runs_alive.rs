//! Questions about many runs: which need a worker, and what they may still spend.
//!
//! Requirements: P5, P8

use std::collections::BTreeSet;
use std::time::Duration;

use belljar_domain::{RunId, Sequence};
use belljar_journal::event::{
    Budget, BudgetChanged, BudgetPatch, ControlRequested, Environment, Finished, ForkedFrom,
    LlmFailed, LlmTrouble, NetworkAccess, Outcome, Prompt, Request, RunCreated, Wish,
};
use belljar_journal::{
    Address, AppendError, BlobRef, ClaimError, ClaimQuery, First, Journal as _, Lease, NewEvent,
    NewRun,
};
use belljar_store::Store;
use time::OffsetDateTime;

use super::runs::begun;
use super::{QUOTA, store};

const LONG: Duration = Duration::from_secs(60);

fn run(tenant: &str, number: u16) -> Address {
    let mut bits = [0; 16];
    bits[..2].copy_from_slice(&number.to_be_bytes());
    bits[2] = tenant.len().to_le_bytes()[0];
    bits[3] = tenant.as_bytes()[0];
    Address { tenant: tenant.to_owned(), run: RunId::from_bits(bits) }
}

async fn several(store: &Store, tenant: &str, numbers: impl IntoIterator<Item = u16>) {
    for number in numbers {
        begun(store, &run(tenant, number)).await;
    }
}

/// P5: a tenant with many waiting runs delays no other tenant.
#[tokio::test]
async fn tenants_take_turns_with_their_oldest_runs() {
    let store = store().await;
    several(&store, "ann", 0..6).await;
    several(&store, "bob", 0..2).await;
    let runs = store.runs();
    let [ann, bob] = ["ann", "bob"].map(|tenant| move |number| run(tenant, number));
    let found = runs.claimable(5).await.unwrap();
    assert_eq!(found, [ann(0), bob(0), ann(1), bob(1), ann(2)]);
    // Runs that a worker leaves alone take no place.
    let except = [ann(0).run, ann(1).run, bob(0).run];
    let query = ClaimQuery { most: 3, except: &except, expired: true };
    assert_eq!(runs.claimable_for(query).await.unwrap(), [ann(2), bob(1), ann(3)]);
    // A run that is worked on does not wait; one that was given back does.
    let lease = runs.claim(&ann(0), "one", LONG).await.unwrap();
    assert!(!runs.claimable(9).await.unwrap().contains(&ann(0)));
    runs.release(&lease).await.unwrap();
    assert_eq!(runs.claimable(1).await.unwrap(), [ann(0)]);
}

/// P5: a search is bounded, and the next one goes on behind it.
#[tokio::test]
async fn more_tenants_than_one_search_reads_are_all_found() {
    let store = store().await;
    let names: Vec<String> = (0..260).map(|number| format!("t{number:03}")).collect();
    let mut all = BTreeSet::new();
    for (number, name) in (0..).zip(&names) {
        store.put_tenant(name, None, QUOTA).await.unwrap();
        let run = run(name, number);
        begun(&store, &run).await;
        all.insert(run);
    }
    let runs = store.runs();
    let mut found = BTreeSet::new();
    let first = runs.claimable(1000).await.unwrap();
    assert!(first.len() < all.len(), "{} tenants at once", first.len());
    found.extend(first);
    found.extend(runs.claimable(1000).await.unwrap());
    assert_eq!(found, all);
    // It begins again with the first tenant, also if there is none behind the last one.
    let first = Some(run("t000", 0));
    assert_eq!(runs.claimable(1000).await.unwrap().first(), first.as_ref());
    for (number, name) in (0..).zip(&names).skip(256) {
        runs.claim(&run(name, number), "one", LONG).await.unwrap();
    }
    let runs = store.runs();
    for _ in 0..3 {
        assert_eq!(runs.claimable(1).await.unwrap().first(), first.as_ref());
    }
}

/// P8: after a worker died, each of its runs has exactly one other worker.
#[tokio::test]
async fn runs_of_a_dead_worker_are_neither_lost_nor_taken_twice() {
    let store = store().await;
    several(&store, "ann", 0..20).await;
    several(&store, "bob", 0..20).await;
    let runs = store.runs();
    let all: Vec<Address> =
        ["ann", "bob"].into_iter().flat_map(|one| (0..20).map(move |n| run(one, n))).collect();
    let mut dead = Vec::new();
    for address in &all {
        // Half of them is renewed in time.
        let is_kept = address.tenant == "bob";
        let time = if is_kept { LONG } else { Duration::ZERO };
        dead.push(runs.claim(address, "dead", time).await.unwrap());
    }
    let unclaimed = ClaimQuery { most: 99, except: &[], expired: false };
    assert!(runs.claimable_for(unclaimed).await.unwrap().is_empty());
    let workers = (0..4).map(|number| {
        let (runs, owner) = (store.runs(), format!("w{number}"));
        tokio::spawn(async move {
            let mut leases: Vec<Lease> = Vec::new();
            loop {
                let found = runs.claimable(7).await.unwrap();
                if found.is_empty() {
                    return leases;
                }
                for address in found {
                    match runs.claim(&address, &owner, LONG).await {
                        Ok(lease) => leases.push(lease),
                        Err(ClaimError::Held { .. }) => {}
                        Err(other) => panic!("{other:?}"),
                    }
                }
            }
        })
    });
    let mut taken = Vec::new();
    for worker in workers.collect::<Vec<_>>() {
        taken.extend(worker.await.unwrap().into_iter().map(|lease| lease.address));
    }
    taken.sort();
    let expected: Vec<_> = all.iter().filter(|run| run.tenant == "ann").cloned().collect();
    assert_eq!(taken, {
        let mut sorted = expected.clone();
        sorted.sort();
        sorted
    });
    for lease in &dead {
        let late = runs.append(lease, cost(1)).await;
        let is_fenced = matches!(late, Err(AppendError::Fenced { .. }));
        assert_eq!(is_fenced, expected.contains(&lease.address), "{late:?}");
    }
}

fn cost(nano_dollars: u64) -> NewEvent {
    NewEvent::new(LlmFailed {
        turn: 1,
        asked: Sequence(1),
        trouble: LlmTrouble::Overloaded,
        message: String::new(),
        nano_dollars,
        micros: 1,
    })
    .keyed(&format!("cost:{nano_dollars}"))
}

fn dollars(nano_dollars: u64) -> Budget {
    Budget { nano_dollars: Some(nano_dollars), ..Budget::default() }
}

/// Makes a run that may spend 100, and takes it.
async fn paying(store: &Store, number: u16, operation: Option<&str>) -> Lease {
    let address = run("ann", number);
    let sha256 = BlobRef::of(b"p").sha256;
    let created = RunCreated {
        question: "why?".to_owned(),
        datasets: Vec::new(),
        model: "m".to_owned(),
        prompt: Prompt { name: "p".to_owned(), version: "1".to_owned(), sha256 },
        budget: dollars(100),
        now: OffsetDateTime::UNIX_EPOCH,
        wish: Some(Wish {
            template: "t".to_owned(),
            environment: Environment::default(),
            network: Box::new(NetworkAccess::default()),
            brief: Box::default(),
            operation: operation.map(str::to_owned),
            request: None,
            questions: false,
            traceparent: None,
        }),
    };
    let new =
        NewRun { address: address.clone(), first: First::Created(created), most_unfinished: None };
    let runs = store.runs();
    runs.create(&new).await.unwrap();
    runs.claim(&address, "one", LONG).await.unwrap()
}

/// O4: a quota knows what unfinished runs may still spend, without their transcripts.
#[tokio::test]
async fn money_of_unfinished_runs_is_summed() {
    let store = store().await;
    let runs = store.runs();
    let reserved = async |except: Option<&RunId>| {
        let reserved = runs.reserved_money("ann", except).await.unwrap();
        (reserved.nano_dollars, reserved.unread.len())
    };
    assert_eq!(reserved(None).await, (0, 0));
    let one = paying(&store, 1, Some("llm")).await;
    let two = paying(&store, 2, Some("llm")).await;
    // It asks no model, so its budget is not spent.
    paying(&store, 3, None).await;
    assert_eq!(reserved(None).await, (200, 0));
    assert_eq!(runs.reserved_money("bob", None).await.unwrap().nano_dollars, 0);
    runs.append(&one, cost(30)).await.unwrap();
    runs.append(&one, cost(30)).await.unwrap();
    assert_eq!(reserved(None).await, (170, 0), "a repeated event is spent once");
    let both = vec![cost(5), cost(6)];
    runs.append_all(&two, both.into(), None).await.unwrap();
    assert_eq!(reserved(None).await, (159, 0));
    assert_eq!(reserved(Some(&one.address.run)).await, (89, 0));
    // A larger budget counts from the request on, a smaller one when it holds.
    for (asked, then) in [(300, 359), (50, 359)] {
        let change = BudgetPatch(dollars(asked));
        let request = Request::Budget { change };
        let request = ControlRequested { request, by: "a".to_owned() };
        runs.request(&one.address, request, None).await.unwrap();
        assert_eq!(reserved(None).await, (then, 0));
    }
    let head = runs.find(&one.address).await.unwrap().head;
    let changed = BudgetChanged { answers: head, budget: dollars(50) };
    runs.append(&one, NewEvent::new(changed)).await.unwrap();
    assert_eq!(reserved(None).await, (109, 0));
    // More is spent than it may: nothing is left, and nothing of others.
    runs.append(&one, cost(1000)).await.unwrap();
    assert_eq!(reserved(None).await, (89, 0));
    let head = runs.find(&two.address).await.unwrap().head;
    let finished =
        Finished { outcome: Outcome::Cancelled, error: None, message: None, result: None };
    runs.append(&two, NewEvent::new(finished).seen(head)).await.unwrap();
    assert_eq!(reserved(None).await, (0, 0));
    // The budget of a fork stands in the transcript of its parent.
    let forked = ForkedFrom {
        parent: two.address.run.clone(),
        after: Sequence(1),
        model: None,
        prompt: None,
        budget: None,
        retry: None,
    };
    let address = run("ann", 9);
    let new =
        NewRun { address: address.clone(), first: First::Forked(forked), most_unfinished: None };
    runs.create(&new).await.unwrap();
    let found = runs.reserved_money("ann", None).await.unwrap();
    assert_eq!((found.nano_dollars, found.unread), (0, vec![address.clone()]));
    assert_eq!(reserved(Some(&address.run)).await, (0, 0));
}
