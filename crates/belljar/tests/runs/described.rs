//! Descriptions of uploaded files: for their owner alone, by a server and by any replica.
//!
//! Requirements: D1, P3

use std::sync::Arc;

use belljar_journal::{Directory, FigureFile};
use belljar_objects::Digest;
use belljar_runs::Settings;
use belljar_sandboxes::Tenant;
use belljar_server::Inside;
use bytes::Bytes;
use http::Request;
use http_body_util::Full;

use crate::api::{Answer, Api};
use crate::offered;
use crate::world::World;

const SALES: &str = "region,amount\nnorth,1\nsouth,2\nnorth,4\n";

pub(crate) async fn a_file_is_described_to_its_owner_alone(world: &World) {
    let (api, stranger) = (Api::new(world), Api::stranger(world));
    let kept = api.send("POST", "/v1/data", SALES).await.json(201);
    let sha256 = kept["sha256"].as_str().unwrap();
    let path = format!("/v1/data/{sha256}/description");
    let described = api.get(&path).await.json(200);
    assert_eq!(described["sha256"], sha256);
    let dataset = &described["document"]["datasets"][0];
    assert_eq!((&dataset["format"], &dataset["rows"]), (&"csv".into(), &3.into()));
    let said = described["text"].as_str().unwrap();
    for part in ["3 records", "region: string (one of \"north\" ×2", "amount: int"] {
        assert!(said.contains(part), "no {part} in {said}");
    }
    assert_eq!(api.get(&path).await.json(200), described);
    let short = api.get(&format!("{path}?tokens=1")).await.json(200);
    assert!(short["text"].as_str().unwrap().len() < said.len(), "{short}");
    assert_eq!(short["document"], described["document"]);
    for query in ["tokens=0", "tokens=x", "rows=1"] {
        api.get(&format!("{path}?{query}")).await.refused(422, "invalid_query");
    }

    // No other tenant, and no other file.
    stranger.get(&path).await.refused(404, "data_not_found");
    let (zeros, upper) = ("0".repeat(64), sha256.to_uppercase());
    for none in ["x", "..%2fx", zeros.as_str(), upper.as_str()] {
        let path = format!("/v1/data/{none}/description");
        api.get(&path).await.refused(404, "data_not_found");
    }
    let binary = api.send("POST", "/v1/data", vec![0_u8; 100]).await.json(201);
    let binary = format!("/v1/data/{}", binary["sha256"].as_str().unwrap());
    api.get(&format!("{binary}/description")).await.refused(422, "data_not_described");
    for path in [binary, format!("/v1/data/{sha256}")] {
        assert_eq!(api.send("DELETE", &path, "").await.status, 204);
        api.get(&format!("{path}/description")).await.refused(404, "data_not_found");
    }
}

/// Sends a request as control passes it to a replica's runs, for a proven tenant.
async fn send(replica: &Inside, tenant: &str, method: &str, path: &str, body: &str) -> Answer {
    let request = Request::builder().method(method).uri(path);
    let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
    Answer::read(replica.of(Tenant::new(tenant)).answer(request).await).await
}

pub(crate) async fn any_replica_describes_a_file_and_forgets_it_with_the_file(world: &World) {
    let place = tempfile::tempdir_in(world.directory.path()).unwrap();
    let replica = |name: &str| {
        let journal = Arc::new(Directory::open(&place.path().join(name)).unwrap());
        let (inside, scripts) = (world.served.inside("one"), world.scripts.clone());
        let figures = Arc::new(FigureFile::open(&place.path().join(name).join("figures.json")));
        let settings = Settings::default();
        let runs = offered::runs(&inside, journal, figures, place.path(), scripts, settings);
        Inside::of_runs(runs, Tenant::new("nobody"))
    };
    let (first, second) = (replica("first"), replica("second"));
    let kept = send(&first, "one", "POST", "/v1/data", SALES).await.json(201);
    let sha256 = kept["sha256"].as_str().unwrap();
    let file = format!("/v1/data/{sha256}");
    let path = format!("{file}/description");
    let described = send(&second, "one", "GET", &path, "").await.json(200);
    assert_eq!(described["document"]["datasets"][0]["rows"], 3);
    assert_eq!(send(&first, "one", "GET", &path, "").await.json(200), described);
    send(&first, "two", "GET", &path, "").await.refused(404, "data_not_found");

    // It is read once, and nothing of it outlives the file.
    let own = place.path().join("data").join(Digest::of(b"one").to_string());
    let record = own.join("plans/records/descriptions/1").join(sha256);
    assert!(record.is_file(), "{}", record.display());
    assert_eq!(send(&second, "one", "DELETE", &file, "").await.status, 204);
    assert!(!record.exists(), "{}", record.display());
    send(&first, "one", "GET", &path, "").await.refused(404, "data_not_found");
}
