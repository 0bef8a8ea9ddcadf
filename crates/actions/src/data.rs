//! Datasets that sandboxes are shown.

use belljar_model::{Data, Tier};
use belljar_objects::{Digest, ShelfError};

use crate::problem::{Kind, Problem};
use crate::start::Actions;

impl Actions {
    /// What a new sandbox is to be shown, found and proven.
    pub(crate) async fn shown(
        &self,
        tier: Tier,
        wanted: &[(String, Digest)],
    ) -> Result<Data, Problem> {
        let Some((_, first)) = wanted.first() else { return Ok(Data::default()) };
        if !tier.shows_files() {
            let message = format!("sandboxes of the tier `{tier}` cannot mount datasets");
            let problem = Problem::new(Kind::Unsupported, "datasets_not_shown", message);
            return Err(problem.hint("write them into the sandbox as files"));
        }
        let names: Vec<&str> = wanted.iter().map(|(name, _)| name.as_str()).collect();
        Data::check(&names).map_err(|unfit| Problem::invalid(unfit.to_string()))?;
        let shelf = self.config().shelf.clone().ok_or_else(|| unknown(first))?;
        let wanted = wanted.to_vec();
        // To read them takes as long as it takes.
        let shown = tokio::task::spawn_blocking(move || shelf.show(&wanted)).await;
        let shown = shown.map_err(|error| Problem::internal("find datasets", &error))?;
        shown.map_err(|error| match error {
            ShelfError::Absent(digest) | ShelfError::Changed(digest) => unknown(&digest),
            ShelfError::Unfit(unfit) => Problem::invalid(unfit.to_string()),
            ShelfError::Read { .. } | ShelfError::Keep { .. } => {
                Problem::internal("find datasets", &error)
            }
        })
    }
}

fn unknown(digest: &Digest) -> Problem {
    let message = format!("dataset {digest} not found");
    Problem::new(Kind::NotFound, "dataset_not_found", message)
        .hint("write it into the sandbox as a file")
}
