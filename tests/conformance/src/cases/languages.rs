//! Contexts of every language that a template can have.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use belljar_domain::limits::MIB;
use belljar_domain::{EndReason, Spec};
use belljar_node::{CellOptions, Context, ContextOptions, Language, Ran, Sandbox};

use crate::fixture::Fixture;
use crate::{cases, same};

cases!["languages":
    python_takes_a_cells_environment needs [Languages],
    javascript_takes_a_cells_environment needs [Languages],
    typescript_runs_without_its_types needs [Languages],
    bash_keeps_state_and_goes_on_after_failures needs [Languages],
    bash_takes_a_cells_environment needs [Languages],
    bash_and_what_it_runs_is_interrupted needs [Languages],
    r_answers needs [Languages],
    java_answers needs [Languages],
];

/// A context in a sandbox of the template that has them all.
async fn open(f: &Fixture, language: Language) -> anyhow::Result<(Sandbox, Context)> {
    let template = belljar_warmed::interpreters()?;
    let mut spec = Spec { root: template.root.clone(), ..f.spec() };
    spec.limits.memory_bytes = 2048 * MIB;
    spec.limits.wall = f.within(Duration::from_secs(30));
    let sandbox = f.node.create(&spec).await.context("make a sandbox")?;
    let interpreter = template.languages.get(language.interpreter());
    let options = ContextOptions {
        language,
        interpreter: interpreter.context("the template lacks it")?.clone(),
        cwd: None,
        env: BTreeMap::from([("SHARED".to_owned(), "of the context".to_owned())]),
    };
    let context = sandbox.context(options).await.context("make a context")?;
    Ok((sandbox, context))
}

async fn run(context: &Context, code: &str) -> anyhow::Result<Ran> {
    with(context, code, &[]).await
}

async fn with(context: &Context, code: &str, env: &[(&str, &str)]) -> anyhow::Result<Ran> {
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let options = CellOptions { env, ..CellOptions::default() };
    let ran = context.execute_with(code, options).await;
    ensure!(ran.end.ok, "`{code}` ended with {}: {:?}", ran.end.reason, ran.error);
    Ok(ran)
}

fn plain(ran: &Ran) -> Option<&str> {
    ran.result.as_ref()?.get("text/plain")?.as_str()
}

/// Runs `code`, whose result is `FOO`, `none` without it, and `SHARED`.
async fn environment(f: &Fixture, language: Language, code: &str) -> anyhow::Result<()> {
    let (_sandbox, context) = open(f, language).await?;
    let said = |ran: &Ran| {
        let result = plain(ran).map(str::to_owned);
        result.unwrap_or_else(|| ran.text()).trim().trim_matches(['\'', '"']).to_owned()
    };
    let lent = with(&context, code, &[("FOO", "bar"), ("SHARED", "of the cell")]).await?;
    same!(said(&lent), "bar of the cell", "a cell with an environment");
    same!(said(&run(&context, code).await?), "none of the context", "the next cell");
    Ok(())
}

async fn python_takes_a_cells_environment(f: &Fixture) -> anyhow::Result<()> {
    let code = "import os; os.environ.get('FOO', 'none') + ' ' + os.environ['SHARED']";
    environment(f, Language::Python, code).await
}

async fn javascript_takes_a_cells_environment(f: &Fixture) -> anyhow::Result<()> {
    let code = "(process.env.FOO ?? 'none') + ' ' + process.env.SHARED";
    environment(f, Language::JavaScript, code).await
}

async fn bash_takes_a_cells_environment(f: &Fixture) -> anyhow::Result<()> {
    environment(f, Language::Bash, "sh -c 'echo ${FOO:-none} $SHARED'").await
}

async fn typescript_runs_without_its_types(f: &Fixture) -> anyhow::Result<()> {
    let (_sandbox, context) = open(f, Language::TypeScript).await?;
    let code = "interface P { x: number }\nconst p: P = { x: 42 }; console.log(p.x as number); p.x";
    let ran = run(&context, code).await?;
    same!((ran.text().as_str(), plain(&ran)), ("42\n", Some("42")), "answer");
    Ok(())
}

async fn bash_keeps_state_and_goes_on_after_failures(f: &Fixture) -> anyhow::Result<()> {
    let (_sandbox, context) = open(f, Language::Bash).await?;
    same!(run(&context, "pwd").await?.text(), "/home/user\n", "directory");
    run(&context, "x=5; cd /usr; f() { echo $x $PWD; }").await?;
    same!(run(&context, "f").await?.text(), "5 /usr\n", "state");
    for (code, status) in [("exit 3", "3"), ("set -e\nfalse\necho no", "1"), ("no-such", "127")] {
        let ran = context.execute(code, None).await;
        same!((ran.end.reason, ran.end.alive), (EndReason::Done, true), "end");
        same!(ran.error.map(|error| error.value).as_deref(), Some(status), "status");
        same!(run(&context, "set +e; f").await?.text(), "5 /usr\n", "afterwards");
    }
    Ok(())
}

async fn bash_and_what_it_runs_is_interrupted(f: &Fixture) -> anyhow::Result<()> {
    let (_sandbox, context) = open(f, Language::Bash).await?;
    run(&context, "x=7").await?;
    for code in ["while :; do :; done", "sleep 60; echo no", "cat /dev/zero | cat >/dev/null"] {
        let ran = context.execute(code, Some(Duration::from_millis(500))).await;
        same!((ran.end.reason, ran.end.alive), (EndReason::TimeoutWall, true), "end");
        same!(ran.text(), "", "output");
        same!(run(&context, "echo $x").await?.text(), "7\n", "afterwards");
    }
    Ok(())
}

async fn r_answers(f: &Fixture) -> anyhow::Result<()> {
    let (_sandbox, context) = open(f, Language::R).await?;
    same!(plain(&run(&context, "getwd()").await?), Some("[1] \"/home/user\""), "directory");
    let ran = with(&context, "x <- Sys.getenv('FOO'); print(x)", &[("FOO", "bar")]).await?;
    same!(ran.text(), "[1] \"bar\"\n", "output");
    let code = "paste(x, Sys.getenv('FOO', unset = 'none'), Sys.getenv('SHARED'))";
    let ran = run(&context, code).await?;
    same!(plain(&ran), Some("[1] \"bar none of the context\""), "state and environment");
    let wall = Some(Duration::from_millis(500));
    let ran = context.execute("repeat {}", wall).await;
    same!((ran.end.reason, ran.end.alive), (EndReason::TimeoutWall, true), "end");
    same!(plain(&run(&context, "x").await?), Some("[1] \"bar\""), "afterwards");
    Ok(())
}

async fn java_answers(f: &Fixture) -> anyhow::Result<()> {
    let (_sandbox, context) = open(f, Language::Java).await?;
    let ran = run(&context, "System.getProperty(\"user.dir\")").await?;
    same!(plain(&ran), Some("\"/home/user\""), "directory");
    let code = "String x = System.getProperty(\"FOO\"); System.out.println(x);";
    same!(with(&context, code, &[("FOO", "bar")]).await?.text(), "bar\n", "output");
    let code = "x + System.getProperty(\"FOO\") + System.getProperty(\"SHARED\")";
    let ran = run(&context, code).await?;
    same!(plain(&ran), Some("\"barnullof the context\""), "state and environment");
    Ok(())
}
