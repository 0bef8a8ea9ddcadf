//! Stateful contexts: forked from a warm interpreter, or executed.
//!
//! Requirements: S10

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use belljar_domain::EndReason;
use belljar_domain::limits::MIB;
use belljar_node::{
    CellEvent, Context, ContextError, ContextOptions, Language, Origin, Ran, Running, Sandbox,
};
use serde_json::Value;

use crate::fixture::Fixture;
use crate::verbs::{lossy, output, patience};
use crate::{cases, same};

cases!["contexts":
    a_cell_answers needs [Contexts],
    state_persists_between_cells needs [Contexts],
    contexts_are_apart needs [Contexts],
    contexts_are_listed_found_and_deleted needs [Contexts],
    a_restart_forgets needs [Contexts],
    answers_say_the_origin needs [Warm],
    an_interrupt_ends_the_cell_only needs [Contexts],
    a_timeout_interrupts needs [Contexts],
    a_stubborn_cell_is_killed needs [Contexts],
    cells_wait_for_their_turn needs [Contexts],
    directory_and_environment_are_per_context needs [Contexts],
    files_are_shared_with_calls needs [Contexts],
    results_are_rich needs [Contexts],
    a_chart_is_shown needs [Contexts],
    displays_come_in_order needs [Contexts],
    a_traceback_is_data needs [Contexts],
    a_syntax_error_is_told needs [Contexts],
    streams_keep_their_order needs [Contexts],
    output_of_children_is_shown needs [Contexts],
    top_level_await_works needs [Contexts],
    an_exit_is_an_exception needs [Contexts],
    a_dead_interpreter_is_over needs [Contexts],
    out_of_memory_is_said needs [Contexts, MemoryLimit],
    endless_output_is_cut needs [Contexts],
    usage_is_counted needs [Contexts, CpuLimit],
    a_copy_has_the_state_and_goes_its_way needs [CopiesMemory],
    an_executed_context_does_the_same needs [Contexts],
    javascript_keeps_state needs [JavaScript],
    javascript_errors_are_data needs [JavaScript],
    javascript_is_interrupted needs [JavaScript],
];

async fn python(f: &Fixture) -> anyhow::Result<(Sandbox, Context)> {
    let sandbox = f.warm(|_| {}).await?;
    let context = sandbox.context(f.python()?).await.context("make a context")?;
    Ok((sandbox, context))
}

async fn run(context: &Context, code: &str) -> anyhow::Result<Ran> {
    let ran = context.execute(code, None).await;
    let error = ran.error.as_ref().map(|error| error.traceback.join("\n"));
    ensure!(ran.end.ok, "`{code}` ended with {}: {}", ran.end.reason, error.unwrap_or_default());
    Ok(ran)
}

/// The plain text of a result.
fn plain(ran: &Ran) -> Option<&str> {
    ran.result.as_ref()?.get("text/plain")?.as_str()
}

/// Waits until a running cell has printed this.
async fn until(running: &mut Running, text: &str) -> anyhow::Result<()> {
    let mut seen = Vec::new();
    loop {
        match running.next().await {
            CellEvent::Stdout(bytes) => seen.extend(bytes),
            CellEvent::End(end) => anyhow::bail!("ended ({}) before {text:?}", end.reason),
            _ => {}
        }
        if lossy(&seen).contains(text) {
            return Ok(());
        }
    }
}

async fn a_cell_answers(f: &Fixture) -> anyhow::Result<()> {
    let (_sandbox, context) = python(f).await?;
    let ran = run(&context, "print('out')\n6 * 7").await?;
    same!((ran.text().as_str(), plain(&ran)), ("out\n", Some("42")), "answer");
    same!((ran.end.reason, ran.end.alive, ran.end.count), (EndReason::Done, true, 1), "end");
    let ran = run(&context, "").await?;
    same!((ran.text().as_str(), plain(&ran)), ("", None), "an empty cell");
    Ok(())
}

async fn state_persists_between_cells(f: &Fixture) -> anyhow::Result<()> {
    let (_sandbox, context) = python(f).await?;
    run(&context, "import math\nx = 40\ndef double(n): return 2 * n").await?;
    let ran = run(&context, "x += 2\ndouble(x) + math.floor(0.5)").await?;
    same!(plain(&ran), Some("84"), "state");
    same!(plain(&run(&context, "_ + 1").await?), Some("85"), "the last result");
    Ok(())
}

async fn contexts_are_apart(f: &Fixture) -> anyhow::Result<()> {
    let (sandbox, one) = python(f).await?;
    let other = sandbox.context(f.python()?).await?;
    run(&one, "x = 1").await?;
    let ran = other.execute("x", None).await;
    same!(ran.error.map(|error| error.name).as_deref(), Some("NameError"), "the other's state");
    ensure!(one.id() != other.id(), "both are context {}", one.id());
    Ok(())
}

async fn contexts_are_listed_found_and_deleted(f: &Fixture) -> anyhow::Result<()> {
    let (sandbox, one) = python(f).await?;
    let other = sandbox.context(f.python()?).await?;
    let ids = |sandbox: &Sandbox| sandbox.contexts().iter().map(Context::id).collect::<Vec<_>>();
    same!(ids(&sandbox), vec![one.id(), other.id()], "contexts");
    same!(sandbox.find_context(other.id())?.id(), other.id(), "the second");
    sandbox.delete_context(one.id()).await?;
    same!(ids(&sandbox), vec![other.id()], "contexts after a deletion");
    let gone = sandbox.find_context(one.id());
    ensure!(matches!(gone, Err(ContextError::Unknown(_))), "a deleted one is {gone:?}");
    let late = one.execute("1", None).await.end;
    ensure!(!late.ok && !late.alive, "a deleted one answers: {late:?}");
    same!(plain(&run(&other, "1 + 1").await?), Some("2"), "the other");
    Ok(())
}

async fn a_restart_forgets(f: &Fixture) -> anyhow::Result<()> {
    let (sandbox, context) = python(f).await?;
    run(&context, "x = 1").await?;
    let context = sandbox.restart_context(context.id()).await?;
    let ran = context.execute("x", None).await;
    same!(ran.error.map(|error| error.name).as_deref(), Some("NameError"), "old state");
    same!(plain(&run(&context, "2 + 2").await?), Some("4"), "afterwards");
    same!(sandbox.contexts().len(), 1, "contexts");
    Ok(())
}

async fn answers_say_the_origin(f: &Fixture) -> anyhow::Result<()> {
    let (sandbox, context) = python(f).await?;
    same!(run(&context, "1").await?.origin, Origin::Forked, "a warm one");
    same!(context.facts().origin, Origin::Forked, "its facts");
    let executed = sandbox.context(executed(f)?).await?;
    same!(run(&executed, "1").await?.origin, Origin::Executed, "one by another name");
    ensure!(!context.facts().version.is_empty(), "it has no version");
    Ok(())
}

/// The same interpreter by a name that no zygote has.
fn executed(f: &Fixture) -> anyhow::Result<ContextOptions> {
    let mut options = f.python()?;
    options.interpreter = PathBuf::from(format!("/usr/bin/../bin/{}", "python3"));
    Ok(options)
}

async fn an_interrupt_ends_the_cell_only(f: &Fixture) -> anyhow::Result<()> {
    let (_sandbox, context) = python(f).await?;
    run(&context, "x = 7").await?;
    for code in ["while True: pass", "import time\ntime.sleep(60)"] {
        let code = format!("print('ready', flush=True)\n{code}");
        let mut running = context.run(code, None);
        until(&mut running, "ready").await?;
        context.interrupt();
        let ran = running.collect().await;
        same!(ran.error.map(|error| error.name).as_deref(), Some("KeyboardInterrupt"), "error");
        same!((ran.end.reason, ran.end.alive), (EndReason::Done, true), "end");
    }
    same!(plain(&run(&context, "x").await?), Some("7"), "afterwards");
    Ok(())
}

async fn a_timeout_interrupts(f: &Fixture) -> anyhow::Result<()> {
    let (_sandbox, context) = python(f).await?;
    run(&context, "x = 7").await?;
    let wall = Some(Duration::from_millis(300));
    let ran = context.execute("while True: pass", wall).await;
    same!((ran.end.reason, ran.end.alive), (EndReason::TimeoutWall, true), "end");
    same!(plain(&run(&context, "x").await?), Some("7"), "afterwards");
    Ok(())
}

async fn a_stubborn_cell_is_killed(f: &Fixture) -> anyhow::Result<()> {
    let (sandbox, context) = python(f).await?;
    let code = "while True:\n    try:\n        while True: pass\n    except BaseException: pass";
    let ran = context.execute(code, Some(Duration::from_millis(300)));
    let ran = tokio::time::timeout(patience(f), ran).await.context("the end hangs")?;
    same!((ran.end.reason, ran.end.alive), (EndReason::TimeoutWall, false), "end");
    ensure!(!context.execute("1", None).await.end.alive, "the context goes on");
    let context = sandbox.restart_context(context.id()).await?;
    same!(plain(&run(&context, "1 + 1").await?), Some("2"), "after a restart");
    Ok(())
}

async fn cells_wait_for_their_turn(f: &Fixture) -> anyhow::Result<()> {
    let (_sandbox, context) = python(f).await?;
    run(&context, "seen = []").await?;
    let cells: Vec<_> = (0..10)
        .map(|number| {
            context.run(format!("import time\ntime.sleep(0.01)\nseen.append({number})"), None)
        })
        .collect();
    for cell in cells {
        ensure!(cell.collect().await.end.ok, "a cell failed");
    }
    same!(plain(&run(&context, "seen").await?), Some("[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"), "order");
    Ok(())
}

async fn directory_and_environment_are_per_context(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.warm(|_| {}).await?;
    let look = "import os\nprint(os.getcwd(), os.environ.get('COLOR'), os.environ['HOME'])";
    let shell = "import subprocess\nprint(subprocess.run('pwd; echo $COLOR', shell=True, \
        capture_output=True, text=True).stdout.split())";
    for (cwd, color) in [(Some("/tmp"), "red"), (Some("/usr"), "blue"), (None, "green")] {
        let env = BTreeMap::from([("COLOR".to_owned(), color.to_owned())]);
        let options = ContextOptions { cwd: cwd.map(str::to_owned), env, ..f.python()? };
        let context = sandbox.context(options).await?;
        let cwd = cwd.unwrap_or("/home/user");
        same!(run(&context, look).await?.text(), format!("{cwd} {color} /home/user\n"), "it");
        same!(run(&context, shell).await?.text(), format!("['{cwd}', '{color}']\n"), "its child");
    }
    Ok(())
}

async fn files_are_shared_with_calls(f: &Fixture) -> anyhow::Result<()> {
    let (sandbox, context) = python(f).await?;
    run(&context, "open('note', 'w').write('from a cell')").await?;
    same!(output(&sandbox, "cat note; id -u").await?, "from a cell1000\n", "a call");
    output(&sandbox, "echo from a call > note").await?;
    same!(run(&context, "print(open('note').read())").await?.text(), "from a call\n\n", "a cell");
    Ok(())
}

async fn results_are_rich(f: &Fixture) -> anyhow::Result<()> {
    let (_sandbox, context) = python(f).await?;
    let ran = run(&context, "import pandas as pd\npd.DataFrame({'a': [1, 2]})").await?;
    let data = ran.result.context("no result")?;
    ensure!(
        data.get("text/html").is_some_and(|html| html.to_string().contains("<table")),
        "no HTML"
    );
    ensure!(data.contains_key("text/plain"), "no text");
    let kinds = [
        ("HTML('<b>x</b>')", "text/html", "<b>x</b>"),
        ("SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"></svg>')", "image/svg+xml", "<svg"),
        ("Latex('$x^2$')", "text/latex", "$x^2$"),
        ("Markdown('# x')", "text/markdown", "# x"),
        ("JSON({'x': [1, None]})", "application/json", "null"),
    ];
    for (code, kind, want) in kinds {
        let code = format!("from IPython.display import HTML, JSON, SVG, Latex, Markdown\n{code}");
        let data = run(&context, &code).await?.result.context("no result")?;
        let value = data.get(kind).with_context(|| format!("no {kind} in {data:?}"))?;
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        ensure!(text.contains(want), "{kind} is {text}");
    }
    Ok(())
}

async fn a_chart_is_shown(f: &Fixture) -> anyhow::Result<()> {
    let (_sandbox, context) = python(f).await?;
    let code = "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()";
    let ran = run(&context, code).await?;
    let png = ran.displays.iter().find_map(|shown| shown.data.get("image/png")?.as_str());
    let png = png.context("no PNG was shown")?;
    ensure!(
        png.starts_with("iVBORw0KGgo"),
        "it is no PNG in base64: {}",
        &png[..png.len().min(20)]
    );
    Ok(())
}

async fn displays_come_in_order(f: &Fixture) -> anyhow::Result<()> {
    let (_sandbox, context) = python(f).await?;
    let code = "from IPython.display import display\n\
        print('one'); display('two'); print('three'); display('four')\n'five'";
    let mut running = context.run(code, None);
    let mut seen = String::new();
    loop {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or("?").to_owned();
        match running.next().await {
            CellEvent::Stdout(bytes) => seen.push_str(&lossy(&bytes)),
            CellEvent::Display(shown) => seen.push_str(&text(shown.data.get("text/plain"))),
            CellEvent::Result { data, .. } => seen.push_str(&text(data.get("text/plain"))),
            CellEvent::End(_) => break,
            CellEvent::Stderr(_) | CellEvent::Error(_) => {}
        }
    }
    same!(seen, "one\n'two'three\n'four''five'", "what was shown");
    Ok(())
}

async fn a_traceback_is_data(f: &Fixture) -> anyhow::Result<()> {
    let (_sandbox, context) = python(f).await?;
    let ran = context.execute("def f(n): return 1 / n\nprint('before')\nf(0)", None).await;
    same!((ran.end.reason, ran.end.ok, ran.end.alive), (EndReason::Done, false, true), "end");
    same!(ran.text(), "before\n", "output before");
    let error = ran.error.context("no error")?;
    same!(
        (error.name.as_str(), error.value.as_str()),
        ("ZeroDivisionError", "division by zero"),
        "error"
    );
    let trace = error.traceback.join("\n");
    ensure!(trace.contains("return 1 / n") && !trace.contains("belljar"), "traceback: {trace}");
    ensure!(!trace.contains('\u{1b}'), "the traceback has colours");
    Ok(())
}

async fn a_syntax_error_is_told(f: &Fixture) -> anyhow::Result<()> {
    let (_sandbox, context) = python(f).await?;
    let ran = context.execute("x = (1,\ny = 2", None).await;
    same!(ran.error.map(|error| error.name).as_deref(), Some("SyntaxError"), "error");
    same!(plain(&run(&context, "1").await?), Some("1"), "afterwards");
    Ok(())
}

async fn streams_keep_their_order(f: &Fixture) -> anyhow::Result<()> {
    let (_sandbox, context) = python(f).await?;
    let code = "import sys\nfor n in range(50):\n    print(n)\n    print(n, file=sys.stderr)";
    let mut running = context.run(code, None);
    let mut seen = String::new();
    loop {
        match running.next().await {
            CellEvent::Stdout(bytes) | CellEvent::Stderr(bytes) => seen.push_str(&lossy(&bytes)),
            CellEvent::End(_) => break,
            _ => {}
        }
    }
    let want: String = (0..50).map(|n| format!("{n}\n{n}\n")).collect();
    same!(seen, want, "both streams");
    Ok(())
}

async fn output_of_children_is_shown(f: &Fixture) -> anyhow::Result<()> {
    let (_sandbox, context) = python(f).await?;
    let code = "import os, subprocess\nsubprocess.run('echo out; echo err >&2', shell=True)\n\
        os.system('echo system')\n!echo magic";
    let ran = run(&context, code).await?;
    let (stdout, stderr) = (ran.text(), lossy(&ran.stderr));
    for word in ["out", "system", "magic"] {
        ensure!(stdout.lines().any(|line| line == word), "`{word}` is not in {stdout:?}");
    }
    same!(stderr, "err\n", "standard error");
    Ok(())
}

async fn top_level_await_works(f: &Fixture) -> anyhow::Result<()> {
    let (_sandbox, context) = python(f).await?;
    let code = "import asyncio\nasync def f(n):\n    await asyncio.sleep(0.01)\n    return n\n\
        sum(await asyncio.gather(f(1), f(2)))";
    same!(plain(&run(&context, code).await?), Some("3"), "sum");
    same!(plain(&run(&context, "await f(9)").await?), Some("9"), "once more");
    Ok(())
}

async fn an_exit_is_an_exception(f: &Fixture) -> anyhow::Result<()> {
    let (_sandbox, context) = python(f).await?;
    let ran = context.execute("import sys\nsys.exit(3)", None).await;
    same!(ran.error.map(|error| error.name).as_deref(), Some("SystemExit"), "error");
    same!((ran.end.reason, ran.end.alive), (EndReason::Done, true), "end");
    Ok(())
}

async fn a_dead_interpreter_is_over(f: &Fixture) -> anyhow::Result<()> {
    for code in ["import os\nos._exit(3)", "import os\nos.kill(os.getpid(), 11)"] {
        let (sandbox, context) = python(f).await?;
        let ran = context.execute(code, None).await;
        same!((ran.end.reason, ran.end.alive), (EndReason::Exit, false), "end");
        ensure!(!context.execute("1", None).await.end.alive, "the context goes on");
        let context = sandbox.restart_context(context.id()).await?;
        same!(plain(&run(&context, "1 + 1").await?), Some("2"), "after a restart");
        same!(output(&sandbox, "echo alive").await?, "alive\n", "the sandbox");
    }
    Ok(())
}

async fn out_of_memory_is_said(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.warm(|limits| limits.memory_bytes = 256 * MIB).await?;
    let context = sandbox.context(f.python()?).await?;
    let code = "hoard = []\nwhile True: hoard.append(bytearray(b'x') * (8 << 20))";
    let ran = context.execute(code, None).await;
    same!((ran.end.reason, ran.end.alive), (EndReason::Oom, false), "end");
    let context = sandbox.restart_context(context.id()).await?;
    same!(plain(&run(&context, "1 + 1").await?), Some("2"), "after a restart");
    Ok(())
}

async fn endless_output_is_cut(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.warm(|limits| limits.output_bytes = MIB).await?;
    let context = sandbox.context(f.python()?).await?;
    let ran = context.execute("while True: print('x' * 1000)", None).await;
    same!((ran.end.reason, ran.end.alive), (EndReason::Output, false), "end");
    ensure!(ran.stdout.len() as u64 <= 2 * MIB, "{} bytes came", ran.stdout.len());
    Ok(())
}

async fn usage_is_counted(f: &Fixture) -> anyhow::Result<()> {
    let (_sandbox, context) = python(f).await?;
    let code =
        "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass";
    let usage = run(&context, code).await?.end.usage;
    let cpu = usage.cpu.as_millis();
    // A kernel in user space counts the time that it waits for a processor as
    // well; we tell what the host gave, which is less on a busy host.
    let least = if f.tier.shares_kernel() { 250 } else { 100 };
    ensure!((least..1000).contains(&cpu), "{cpu} ms of CPU for 300");
    let idle = run(&context, "time.sleep(0.2)").await?.end.usage;
    ensure!(idle.cpu < Duration::from_millis(100), "{:?} for a sleep", idle.cpu);
    ensure!(idle.wall >= Duration::from_millis(200), "{:?} of wall time", idle.wall);
    Ok(())
}

async fn a_copy_has_the_state_and_goes_its_way(f: &Fixture) -> anyhow::Result<()> {
    let (sandbox, context) = python(f).await?;
    run(&context, "x = [1]\nopen('note', 'w').write('before')").await?;
    let checkpoint = sandbox.checkpoint().await?;
    run(&context, "x.append('original')\nopen('note', 'w').write('original')").await?;
    let copy = f.warm_node()?.fork(&checkpoint).await?;
    let copied = copy.contexts().into_iter().next().context("the copy has no context")?;
    let ran = run(&copied, "print(open('note').read())\nx").await?;
    same!((ran.text().as_str(), plain(&ran)), ("before\n", Some("[1]")), "the copy");
    ensure!(ran.origin != Origin::Executed || f.tier.can_be_saved(), "it was started anew");
    run(&copied, "x.append('copy')").await?;
    same!(plain(&run(&context, "x").await?), Some("[1, 'original']"), "the original");
    copy.destroy().await?;
    Ok(())
}

async fn an_executed_context_does_the_same(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.warm(|_| {}).await?;
    let context = sandbox.context(executed(f)?).await?;
    run(&context, "x = 20").await?;
    let ran = run(&context, "print('out')\nx + 1").await?;
    same!((ran.text().as_str(), plain(&ran)), ("out\n", Some("21")), "answer");
    let ran = context.execute("1 / 0", None).await;
    same!(ran.error.map(|error| error.name).as_deref(), Some("ZeroDivisionError"), "error");
    let ran = context.execute("while True: pass", Some(Duration::from_millis(300))).await;
    same!((ran.end.reason, ran.end.alive), (EndReason::TimeoutWall, true), "a timeout");
    same!(plain(&run(&context, "x").await?), Some("20"), "afterwards");
    Ok(())
}

async fn javascript(f: &Fixture) -> anyhow::Result<(Sandbox, Context)> {
    let sandbox = f.limited(|limits| limits.memory_bytes = 2 << 30).await?;
    let options = ContextOptions {
        language: Language::JavaScript,
        interpreter: f.template.languages["node"].clone(),
        cwd: None,
        env: BTreeMap::new(),
    };
    let context = sandbox.context(options).await.context("make a context")?;
    Ok((sandbox, context))
}

async fn javascript_keeps_state(f: &Fixture) -> anyhow::Result<()> {
    let (_sandbox, context) = javascript(f).await?;
    run(&context, "const x = 20; let y = await Promise.resolve(1)").await?;
    let ran = run(&context, "console.log('out'); x + y").await?;
    same!((ran.text().as_str(), plain(&ran)), ("out\n", Some("21")), "answer");
    same!(ran.origin, Origin::Executed, "origin");
    Ok(())
}

async fn javascript_errors_are_data(f: &Fixture) -> anyhow::Result<()> {
    let (_sandbox, context) = javascript(f).await?;
    let ran = context.execute("null.x", None).await;
    same!(ran.error.map(|error| error.name).as_deref(), Some("TypeError"), "error");
    same!(plain(&run(&context, "1 + 1").await?), Some("2"), "afterwards");
    Ok(())
}

async fn javascript_is_interrupted(f: &Fixture) -> anyhow::Result<()> {
    let (_sandbox, context) = javascript(f).await?;
    run(&context, "var x = 7").await?;
    let ran = context.execute("while (true) {}", Some(Duration::from_millis(500))).await;
    same!((ran.end.reason, ran.end.alive), (EndReason::TimeoutWall, true), "end");
    same!(plain(&run(&context, "x").await?), Some("7"), "afterwards");
    Ok(())
}
