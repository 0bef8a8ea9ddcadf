//! Who may ask for what.

use belljar_api::sandbox::{CreateSandbox, ListSandboxes};
use belljar_client::{Cell, Client, Command, Dial, Error, Outcome, Transport, Trust};
use belljar_testkit::Served;

use crate::{Stage, Way};

pub(crate) async fn each_tenant_has_its_own(stage: &Stage<'_>) {
    let (sandbox, bash) = stage.bash().await;
    let stranger = stage.stranger();
    let theirs = stranger.sandbox(sandbox.id());
    let refused = [
        theirs.inspect().await.map(drop),
        theirs.run(&Command::script("true"), None).await.map(drop),
        theirs.run_cell(&bash, &Cell::new("true"), None).await.map(drop),
        theirs.write_file("/tmp/x", "").await.map(drop),
        // Nor does it raise the fence of a sandbox that is not its own.
        theirs.clone().driven(u64::MAX).end().await,
    ];
    for (index, refused) in refused.into_iter().enumerate() {
        let error = refused.unwrap_err();
        assert_eq!(error.code(), Some("sandbox_not_found"), "{index}: {error:?}");
        assert_eq!(error.outcome(), Outcome::Refused);
    }
    let page = stranger.sandboxes(&ListSandboxes::default()).await.unwrap();
    assert!(page.items.is_empty(), "{page:?}");
    sandbox.clone().driven(0).inspect().await.unwrap();
    sandbox.end().await.unwrap();
    if stage.way == Way::Dial {
        let url = format!("http://{}", stage.served.address);
        let nobody = Client::new(Dial::new(&url, "e2b_0", &Trust::Host).unwrap());
        let error = nobody.sandboxes(&ListSandboxes::default()).await.unwrap_err();
        assert_eq!(error.code(), Some("unauthenticated"), "{error:?}");
    }
}

pub(crate) async fn whoever_was_replaced_is_refused(stage: &Stage<'_>) {
    let (sandbox, bash) = stage.bash().await;
    let (old, new) = (sandbox.clone().driven(1), sandbox.clone().driven(2));
    let key = "k".parse().unwrap();
    let cell = Cell::new("echo x >> /tmp/n");
    old.run_cell(&bash, &cell, Some(&key)).await.unwrap().finish().await.unwrap();
    // The one who takes over hears what the other had done.
    let again = new.run_cell(&bash, &cell, Some(&key)).await.unwrap();
    assert!(again.is_repeated());
    again.finish().await.unwrap();
    let refused = [
        old.run_cell(&bash, &cell, Some(&key)).await.map(drop),
        old.run_cell(&bash, &cell, None).await.map(drop),
        old.run(&Command::script("true"), Some(&"other".parse().unwrap())).await.map(drop),
        old.write_file("/tmp/n", "").await.map(drop),
        old.end().await,
    ];
    for (index, refused) in refused.into_iter().enumerate() {
        let error = refused.unwrap_err();
        assert_eq!(error.code(), Some("stale_generation"), "{index}: {error:?}");
        assert_eq!(error.outcome(), Outcome::Refused);
    }
    assert_eq!(crate::lines(&sandbox, "/tmp/n").await, 1);
    new.run_cell(&bash, &cell, None).await.unwrap().finish().await.unwrap();
    // Whoever drives nothing is not kept out.
    sandbox.end().await.unwrap();
}

pub(crate) async fn a_server_that_is_not_there_has_heard_nothing(stage: &Stage<'_>) {
    // Nobody listens on a port that was just given back.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = Client::new(Dial::new(&format!("http://{port}"), "k", &Trust::Host).unwrap());
    let error = nobody.sandbox(stage.served.address.to_string().as_str()).end().await.unwrap_err();
    assert!(matches!(error, Error::Transport(Transport::Connect(_))), "{error:?}");
    assert_eq!(error.outcome(), Outcome::NotNow);
    // One key makes one sandbox.
    let wish = CreateSandbox::of("base".to_owned().try_into().unwrap());
    let key = format!("make-{:?}", stage.way).to_lowercase().parse().unwrap();
    let first = stage.client.create(&wish, Some(&key)).await.unwrap();
    let second = stage.client.create(&wish, Some(&key)).await.unwrap();
    assert_eq!(first.id, second.id);
    stage.client.sandbox(&first.id).end().await.unwrap();
}

pub(crate) async fn a_server_that_nobody_vouches_for_is_told_nothing(stage: &Stage<'_>) {
    let url = format!("https://localhost:{}", stage.served.secure.port());
    let dial = |trust: &Trust| Client::new(Dial::new(&url, Served::KEYS[0], trust).unwrap());
    let trust = Trust::File(stage.served.authority.clone());
    dial(&trust).sandboxes(&ListSandboxes::default()).await.unwrap();
    let error = dial(&Trust::Host).sandboxes(&ListSandboxes::default()).await.unwrap_err();
    assert!(matches!(error, Error::Transport(Transport::Connect(_))), "{error:?}");
}
