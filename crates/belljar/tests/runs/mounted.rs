//! Files that a tenant uploaded, mounted in its sandboxes and in no others.
//!
//! Requirements: S14, P3

use serde_json::json;

use crate::api::Api;
use crate::world::{TEMPLATE, World};

const SALES: &str = "region,amount\nnorth,17\nsouth,18\n";

pub(crate) async fn a_tenant_mounts_its_own_files_alone(world: &World) {
    let (api, stranger) = (Api::new(world), Api::stranger(world));
    let kept = api.send("POST", "/v1/data", SALES).await.json(201);
    let file = format!("/v1/data/{}", kept["sha256"].as_str().unwrap());
    let data = json!([{ "name": "sales.csv", "sha256": kept["sha256"] }]);
    let wish = json!({ "template": TEMPLATE, "timeout_seconds": 60, "data": data }).to_string();
    let refused = stranger.send("POST", "/v1/sandboxes", wish.clone()).await;
    refused.refused(404, "dataset_not_found");
    let made = api.send("POST", "/v1/sandboxes", wish.clone()).await.json(201);
    let sandbox = format!("/v1/sandboxes/{}", made["id"].as_str().unwrap());
    let script =
        "cat /mnt/data/sales.csv; echo 1 2>/dev/null >> /mnt/data/sales.csv || echo refused";
    let call = json!({ "script": script }).to_string();
    let called = api.send("POST", &format!("{sandbox}/calls"), call).await.json(200);
    assert_eq!(called["stdout"]["data"], format!("{SALES}refused\n"), "{called}");

    // A sandbox that has a file keeps it. The next one does not get what was deleted.
    assert_eq!(api.send("DELETE", &file, "").await.status, 204);
    api.send("POST", "/v1/sandboxes", wish).await.refused(404, "dataset_not_found");
    let call = json!({ "script": "cat /mnt/data/sales.csv" }).to_string();
    let called = api.send("POST", &format!("{sandbox}/calls"), call).await.json(200);
    assert_eq!(called["stdout"]["data"], SALES, "{called}");
    assert_eq!(api.send("DELETE", &sandbox, "").await.status, 204);
}
