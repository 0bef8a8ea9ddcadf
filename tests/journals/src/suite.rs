//! What must hold in every journal.

mod control;
mod crash;
mod forks;
mod gathered;
mod leases;
mod lists;
mod writes;

pub use control::*;
pub use crash::*;
pub use forks::*;
pub use gathered::*;
pub use leases::*;
pub use lists::*;
pub use writes::*;

use std::sync::Arc;
use std::time::Duration;

use belljar_journal::{Address, Created, Event, Journal, Lease, NewRun, read_all};

use crate::build;

const LONG: Duration = Duration::from_secs(60);

/// Makes a run of `ann`'s.
async fn run(journal: &Arc<dyn Journal>) -> anyhow::Result<Address> {
    make(journal, build::new("ann")).await
}

async fn make(journal: &Arc<dyn Journal>, new: NewRun) -> anyhow::Result<Address> {
    let made = journal.create(&new).await?;
    anyhow::ensure!(made == Created::Made, "{made:?}");
    Ok(new.address)
}

/// Makes a run and takes it.
async fn leased(journal: &Arc<dyn Journal>) -> anyhow::Result<Lease> {
    let run = run(journal).await?;
    Ok(journal.claim(&run, "first", LONG).await?)
}

/// All events, which have no gap between them.
async fn all(journal: &Arc<dyn Journal>, run: &Address) -> anyhow::Result<Vec<Event>> {
    let events = read_all(&**journal, run).await?;
    for (place, event) in events.iter().enumerate() {
        anyhow::ensure!(event.seq.0 == place as u64 + 1, "event {} in place {place}", event.seq);
    }
    let ordered = events.windows(2).all(|pair| pair[0].at <= pair[1].at);
    anyhow::ensure!(ordered, "a later event is earlier");
    Ok(events)
}
