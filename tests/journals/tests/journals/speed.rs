//! How many events a second, each on the disk before it is acknowledged:
//!
//! ```sh
//! cargo test --release -p belljar-journals -- --ignored --nocapture speed
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use belljar_journal::{Journal, Lease};
use belljar_journals::{InDirectory, InPostgres, Place, build};
use belljar_store::Store;
use belljar_testkit::Postgres;

const TIME: Duration = Duration::from_secs(5);
const BODY: usize = 2000;

async fn lease(journal: &Arc<dyn Journal>) -> Lease {
    let new = build::new("ann");
    journal.create(&new).await.unwrap();
    journal.claim(&new.address, "w", Duration::from_secs(600)).await.unwrap()
}

/// Each writer has a run of its own.
#[expect(clippy::print_stdout, reason = "figures are for people")]
async fn measure(name: &str, journals: Vec<Arc<dyn Journal>>) {
    let writers = journals.len();
    let mut tasks = Vec::new();
    for journal in journals {
        let lease = lease(&journal).await;
        tasks.push(tokio::spawn(async move {
            let began = Instant::now();
            let mut count = 0_u32;
            while began.elapsed() < TIME {
                let event = build::said(&"x".repeat(BODY)).keyed(&format!("k{count}"));
                journal.append(&lease, event).await.unwrap();
                count += 1;
            }
            count
        }));
    }
    let mut count = 0;
    for task in tasks {
        count += task.await.unwrap();
    }
    let rate = f64::from(count) / TIME.as_secs_f64();
    println!("{name}, {writers} writers: {rate:.0} appends/s of {BODY} bytes");
    assert!(rate > 1.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn speed_of_a_directory() {
    let place = InDirectory::on_disk().unwrap();
    for writers in [1, 8] {
        let journal = place.open().await.unwrap();
        measure("directory", vec![journal; writers]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn speed_of_postgres() {
    let server = Postgres::start_durable().unwrap();
    let place = InPostgres::on(&server).await.unwrap();
    for writers in [1, 8] {
        let mut journals: Vec<Arc<dyn Journal>> = Vec::new();
        for _ in 0..writers {
            journals.push(Arc::new(Store::connect(place.url(), 1).await.unwrap().runs()));
        }
        measure("postgres", journals).await;
    }
}
