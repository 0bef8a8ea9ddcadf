//! Files of sandboxes without anything that ran: to be saved, and to begin with.

use std::io;

use belljar_sandbox::Files;

use crate::sandbox::Sandbox;

impl Sandbox {
    /// A copy of everything that was written to, as of now. Whoever wants the
    /// files of one moment pauses the sandbox first.
    pub async fn files(&self) -> io::Result<Files> {
        let (machine, limits) = (self.machine.clone(), self.limits().clone());
        let files = tokio::task::spawn_blocking(move || machine.files(&limits)).await;
        files.map_err(io::Error::other)?
    }
}
