//! The same promises, on a directory and on a server that speaks S3.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};

use belljar_objects::{Digest, Expected, Objects, ObjectsError, Place};
use belljar_testkit::S3;
use tempfile::TempDir;
use tokio::io::{AsyncRead, ReadBuf};

/// A place, and where its blobs are as plain files.
struct World {
    objects: Objects,
    blobs: PathBuf,
    _dir: TempDir,
    s3: Option<S3>,
}

fn directory() -> World {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("objects");
    let place = root.to_str().unwrap().parse::<Place>().unwrap();
    let objects = Objects::open(&place, &dir.path().join("scratch")).unwrap();
    World { objects, blobs: root.join("blobs"), _dir: dir, s3: None }
}

fn bucket() -> World {
    let s3 = S3::start().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let place = format!("s3://{}/some/prefix", S3::BUCKET).parse::<Place>().unwrap();
    let place = place.with_settings(&s3.settings().unwrap());
    let objects = Objects::open(&place, &dir.path().join("scratch")).unwrap();
    World { objects, blobs: s3.bucket().join("some/prefix/blobs"), _dir: dir, s3: Some(s3) }
}

/// Runs a test on both.
macro_rules! on_both {
    ($($name:ident)*) => {
        mod in_a_directory {
            $(#[tokio::test] async fn $name() { super::$name(super::directory()).await; })*
        }
        mod in_s3 {
            $(#[tokio::test] async fn $name() { super::$name(super::bucket()).await; })*
        }
    };
}

on_both! {
    a_blob_comes_back_as_it_went_in
    an_upload_that_breaks_off_leaves_nothing
    a_damaged_blob_is_refused
    of_two_writers_of_a_record_one_wins
    every_change_of_many_writers_is_kept
    records_are_listed_below_their_prefix_only
}

/// More than two parts, without any pattern in it.
fn long() -> Vec<u8> {
    let mut state = 1u64;
    let bytes = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state.to_be_bytes()
    });
    bytes.take((20 << 20) / 8).flatten().collect()
}

fn files(below: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(below).into_iter().flatten().flatten();
    let files = entries.flat_map(|entry| match entry.path() {
        path if path.is_dir() => files(&path),
        path => vec![path],
    });
    files.collect()
}

async fn a_blob_comes_back_as_it_went_in(world: World) {
    for content in [Vec::new(), b"short".to_vec(), long()] {
        let digest = world.objects.put_blob(&content[..]).await.unwrap();
        assert_eq!(digest, Digest::of(&content));
        let mut found = Vec::new();
        world.objects.get_blob(&digest).await.unwrap().read_to_end(&mut found).unwrap();
        assert!(found == content, "{} bytes", content.len());
        let facts = world.objects.find_blob(&digest).await.unwrap().unwrap();
        assert_eq!(facts.bytes, content.len() as u64);
        assert!(facts.modified.elapsed().unwrap().as_secs() < 600);
    }
    assert_eq!(world.objects.list_blobs().await.unwrap().len(), 3);
    let short = Digest::of(b"short");
    world.objects.delete_blob(&short).await.unwrap();
    world.objects.delete_blob(&short).await.unwrap();
    assert!(world.objects.find_blob(&short).await.unwrap().is_none());
    let gone = world.objects.get_blob(&short).await;
    assert!(matches!(gone, Err(ObjectsError::NoBlob(_))), "{gone:?}");
}

/// Says something, then fails.
struct Breaks<'a>(&'a [u8]);

impl AsyncRead for Breaks<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.0.is_empty() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let count = buffer.remaining().min(self.0.len());
        buffer.put_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        Poll::Ready(Ok(()))
    }
}

async fn an_upload_that_breaks_off_leaves_nothing(mut world: World) {
    let content = long();
    let put = world.objects.put_blob(Breaks(&content)).await;
    assert!(matches!(put, Err(ObjectsError::Broken(_))), "{put:?}");
    assert_eq!(files(&world.blobs), Vec::<PathBuf>::new());
    assert_eq!(world.objects.list_blobs().await.unwrap(), []);
    // A server that dies under an upload has nothing to show for it either.
    if let Some(s3) = &mut world.s3 {
        let objects = world.objects.clone();
        let put = tokio::spawn(async move { objects.put_blob(&long()[..]).await });
        s3.kill();
        assert!(put.await.unwrap().is_err());
        assert_eq!(files(&world.blobs), Vec::<PathBuf>::new());
    }
}

async fn a_damaged_blob_is_refused(world: World) {
    let content = long();
    let digest = world.objects.put_blob(&content[..]).await.unwrap();
    let [path] = &files(&world.blobs)[..] else { panic!("not one blob") };
    for damaged in [content[..content.len() / 2].to_vec(), vec![0; content.len()]] {
        std::fs::write(path, damaged).unwrap();
        let got = world.objects.get_blob(&digest).await;
        assert!(got.is_err(), "{got:?}");
    }
    std::fs::write(path, &content).unwrap();
    assert!(world.objects.get_blob(&digest).await.is_ok());
}

async fn of_two_writers_of_a_record_one_wins(world: World) {
    let objects = &world.objects;
    let put = |content: &'static str, expected: Expected| async move {
        objects.put_record("a/b", content.into(), &expected).await
    };
    let (one, two) = tokio::join!(put("one", Expected::Absent), put("two", Expected::Absent));
    assert!(one.is_ok() != two.is_ok(), "{one:?} {two:?}");
    let (content, version) = objects.get_record("a/b").await.unwrap().unwrap();
    let winner = if one.is_ok() { "one" } else { "two" };
    assert_eq!(content, winner.as_bytes());
    assert_eq!(one.or(two).unwrap(), version);

    let is = || Expected::Is(version.clone());
    let (three, four) = tokio::join!(put("three", is()), put("four", is()));
    assert!(three.is_ok() != four.is_ok(), "{three:?} {four:?}");
    let late = put("late", is()).await;
    assert!(late.is_err_and(|error| error.is_conflict()));
    objects.delete_record("a/b").await.unwrap();
    let gone = put("gone", Expected::Is(three.or(four).unwrap())).await;
    assert!(gone.is_err_and(|error| error.is_conflict()));
    assert!(objects.get_record("a/b").await.unwrap().is_none());
    for name in ["../x", "", "a//b"] {
        assert!(objects.put_record(name, Vec::new(), &Expected::Absent).await.is_err());
    }
}

async fn every_change_of_many_writers_is_kept(world: World) {
    world.objects.put_record("count", b"0".to_vec(), &Expected::Absent).await.unwrap();
    let writers: Vec<_> = (0..4)
        .map(|_| {
            let objects = world.objects.clone();
            tokio::spawn(async move {
                let mut left = 5;
                while left > 0 {
                    let (content, version) = objects.get_record("count").await.unwrap().unwrap();
                    let count: u32 = String::from_utf8(content).unwrap().parse().unwrap();
                    let next = (count + 1).to_string().into_bytes();
                    match objects.put_record("count", next, &Expected::Is(version)).await {
                        Ok(_) => left -= 1,
                        Err(error) => assert!(error.is_conflict(), "{error:?}"),
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let (count, _) = world.objects.get_record("count").await.unwrap().unwrap();
    assert_eq!(String::from_utf8(count).unwrap(), "20");
}

async fn records_are_listed_below_their_prefix_only(world: World) {
    let mut versions = Vec::new();
    for name in ["t/a/1", "t/a/2", "t/ab/3", "t/b/1"] {
        let put = world.objects.put_record(name, name.into(), &Expected::Absent).await;
        versions.push((name.to_owned(), put.unwrap()));
    }
    assert_eq!(world.objects.list_records("t/a").await.unwrap(), versions[..2]);
    assert_eq!(world.objects.list_records("t/nobody").await.unwrap(), []);
    assert_eq!(world.objects.list_records("t").await.unwrap(), versions);
}
