//! Three ways to count a budget that several gateways spend, measured on one machine. The table is
//! that of docs/design/0039:
//!
//! ```text
//! cargo test -p belljar-control --test budgets -- --ignored --nocapture
//! ```
#![expect(clippy::unwrap_used, reason = "a test; its helpers are no test functions")]
#![expect(clippy::print_stdout, reason = "its output is its product")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE;
use async_nats::jetstream;
use belljar_domain::budget::{
    AskSlice, BudgetAmount, BudgetAnswer, BudgetKey, BudgetLimit, BudgetRequest, Slice,
};
use belljar_store::Store;
use belljar_testkit::{Nats, Postgres};
use tokio::sync::Mutex;

const GATEWAYS: usize = 3;
/// Requests at the same time.
const WORKERS: usize = 32;
const TIME: Duration = Duration::from_secs(5);
const LIMIT: u64 = 1 << 40;
const SUBJECT: &str = "budget.llm";

fn ask(operation: &str, gateway: usize) -> BudgetRequest {
    BudgetRequest::Lease(AskSlice {
        gateway: format!("g{gateway}"),
        key: BudgetKey { operation: operation.to_owned(), tenant: None, every_seconds: 0 },
        limit: BudgetLimit { requests: Some(LIMIT), ..BudgetLimit::default() },
        at_least: BudgetAmount { requests: 1, ..BudgetAmount::default() },
    })
}

async fn lease(store: &Store, request: &BudgetRequest) -> Slice {
    match store.answer_budget(None, request).await.unwrap() {
        BudgetAnswer::Granted(slice) => slice,
        other => panic!("{other:?}"),
    }
}

/// Has all workers reserve until the time is over, and prints a row of the table.
async fn measure<F: Future<Output = ()> + Send + 'static>(
    way: &str,
    reserve: impl Fn(usize) -> F + Clone + Send + 'static,
) {
    let began = Instant::now();
    let mut workers = tokio::task::JoinSet::new();
    for number in 0..WORKERS {
        let reserve = reserve.clone();
        workers.spawn(async move {
            let mut took = Vec::new();
            while began.elapsed() < TIME {
                let asked = Instant::now();
                reserve(number % GATEWAYS).await;
                took.push(asked.elapsed());
                // A way that never waits would keep the thread.
                tokio::task::yield_now().await;
            }
            took
        });
    }
    let mut took: Vec<Duration> = workers.join_all().await.into_iter().flatten().collect();
    let seconds = began.elapsed().as_secs_f64();
    took.sort_unstable();
    let at = |part: usize| took[(took.len() - 1) * part / 100];
    let each_second = u32::try_from(took.len()).map_or(f64::INFINITY, f64::from) / seconds;
    println!("| {way} | {each_second:.0} | {:.2?} | {:.2?} |", at(50), at(99));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn three_ways_to_count_a_budget() {
    let store = Store::connect(&Postgres::shared().schema(), 16).await.unwrap();
    store.migrate().await.unwrap();
    let nats = Nats::start().unwrap();
    let client = async_nats::connect(nats.urls().remove(0)).await.unwrap();
    let context = jetstream::new(client);
    let config = jetstream::stream::Config {
        name: "budgets".to_owned(),
        subjects: vec!["budget.>".to_owned()],
        max_messages_per_subject: 1,
        ..jetstream::stream::Config::default()
    };
    let stream = Arc::new(context.create_stream(config).await.unwrap());
    println!("| way | reservations/s | p50 | p99 |\n|---|---|---|---|");

    let of_statement = store.clone();
    measure("one PostgreSQL statement for each request", move |gateway| {
        let store = of_statement.clone();
        async move {
            lease(&store, &ask("statement", gateway)).await;
        }
    })
    .await;

    // A key-value store of NATS is made of the last message of each subject.
    measure("compare-and-set on NATS for each request", move |_| {
        let (context, stream) = (context.clone(), Arc::clone(&stream));
        async move {
            loop {
                let last = stream.get_last_raw_message_by_subject(SUBJECT).await;
                let last = last.map_or(0, |message| message.sequence);
                let mut headers = HeaderMap::new();
                headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, last.to_string().as_str());
                let sent = context.publish_with_headers(SUBJECT, headers, "1".into()).await;
                if sent.unwrap().await.is_ok() {
                    return;
                }
            }
        }
    })
    .await;

    let slices: Arc<[Mutex<u64>; GATEWAYS]> = Arc::default();
    measure("slices", move |gateway| {
        let (store, slices) = (store.clone(), Arc::clone(&slices));
        async move {
            let mut left = slices[gateway].lock().await;
            if *left == 0 {
                *left = lease(&store, &ask("slices", gateway)).await.amount.requests;
            }
            *left -= 1;
        }
    })
    .await;
}
