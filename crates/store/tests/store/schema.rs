use belljar_store::{MigrateError, Store};
use belljar_testkit::Postgres;

use super::empty;

#[tokio::test]
async fn many_processes_may_migrate_at_once() {
    let url = Postgres::shared().schema();
    let all = (0..6).map(|_| {
        let url = url.clone();
        tokio::spawn(async move { Store::connect(&url, 2).await.unwrap().migrate().await })
    });
    for one in all.collect::<Vec<_>>() {
        one.await.unwrap().unwrap();
    }
    let store = Store::connect(&url, 1).await.unwrap();
    store.migrate().await.unwrap();
    store.ping().await.unwrap();
}

#[tokio::test]
async fn tables_of_a_newer_version_are_left_alone() {
    let url = Postgres::shared().schema();
    let store = Store::connect(&url, 2).await.unwrap();
    store.migrate().await.unwrap();
    let schema = url.rsplit('=').next().unwrap();
    let newer = format!(
        "insert into {schema}._sqlx_migrations
           (version, description, success, checksum, execution_time)
         values (9999, 'later', true, '', 0)"
    );
    Postgres::shared().run(&newer).unwrap();
    assert!(matches!(store.migrate().await, Err(MigrateError::Newer(_))));
}

#[tokio::test]
async fn without_tables_every_answer_is_an_error() {
    let store = empty().await;
    assert!(store.nodes().await.is_err());
    assert!(Store::connect("mysql://elsewhere", 1).await.is_err());
}
