//! `belljar runs retry`, of a run of this machine.

use anyhow::anyhow;
use belljar_agent::{Larger, next_attempt, retry as attempt};
use belljar_journal::{Address, Created, Directory, First, Journal as _, NewRun, read_all};

use crate::output::{Hint as _, Printer, hinted};

/// Makes the run of another attempt. `belljar ask --resume` works on it.
pub(super) async fn retry(
    journal: &Directory,
    run: &Address,
    larger: &Larger,
    printer: &Printer,
) -> anyhow::Result<()> {
    let events = read_all(journal, run).await.hint("`belljar runs list` shows runs")?;
    let forked = attempt(&run.run, &events, larger)
        .hint("`belljar runs show` has the end of the run; see `belljar runs retry --help`")?;
    let address = Address { run: next_attempt(&run.run), ..run.clone() };
    let first = First::Forked(forked);
    let body = first.body();
    let new = NewRun { address: address.clone(), first, most_unfinished: None };
    if let Created::Already(event) = journal.create(&new).await?
        && event.body != body
    {
        let error = anyhow!("the run was retried as {} with another allocation", address.run);
        return Err(hinted(error, "retry that run when it has ended"));
    }
    if printer.is_json() {
        return printer.document(&serde_json::json!({ "id": address.run, "retry_of": run.run }));
    }
    printer.data(&address.run)?;
    printer.note(format_args!("hint: `belljar ask --resume {}` works on it", address.run));
    Ok(())
}
