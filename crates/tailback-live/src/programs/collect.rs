//! Keeps files that programs leave in their folder, if the scenario asks for them.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// A file's path and its contents.
pub type Kept = (String, Vec<u8>);

/// Files below `folder` whose names match one of `patterns`, in order of their paths below it, each up to `most` bytes;
/// and messages about files that were longer.
pub fn files(folder: &Path, patterns: &[String], most: u64) -> io::Result<(Vec<Kept>, Vec<String>)> {
    let (mut found, mut notes) = (Vec::new(), Vec::new());
    if patterns.is_empty() {
        return Ok((found, notes));
    }
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        for entry in fs::read_dir(&at)? {
            let entry = entry?;
            // Skip links, which may lead anywhere, and pipes, which may never end.
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() && is_wanted(&entry.file_name().to_string_lossy(), patterns) {
                let path = entry.path();
                let name = path.strip_prefix(folder).expect("below it").to_string_lossy().into_owned();
                let file = File::open(&path)?;
                if file.metadata()?.len() > most {
                    notes.push(format!("of {name} the first {} MiB were kept", most >> 20));
                }
                let mut text = Vec::new();
                file.take(most).read_to_end(&mut text)?;
                found.push((name, text));
            }
        }
    }
    found.sort();
    notes.sort();
    Ok((found, notes))
}

fn is_wanted(name: &str, patterns: &[String]) -> bool {
    patterns.iter().any(|pattern| matches(pattern.as_bytes(), name.as_bytes()))
}

/// Whether a name matches a pattern: `*` stands for any bytes, `?` for one byte.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => (0..=name.len()).any(|skipped| matches(rest, &name[skipped..])),
        (Some((b'?', rest)), Some((_, left))) => matches(rest, left),
        (Some((wanted, rest)), Some((found, left))) => wanted == found && matches(rest, left),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_stand_for_names() {
        for (pattern, name, is_match) in [
            ("*.qlog", "client.qlog", true),
            ("*.qlog", "client.qlog.gz", false),
            ("keys", "keys", true),
            ("log-?", "log-1", true),
            ("log-?", "log-12", false),
            ("*a*b", "xaxbxb", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), is_match, "{pattern} {name}");
        }
    }

    #[test]
    fn files_are_kept_up_to_a_length_and_links_are_not_followed() {
        let folder = std::env::temp_dir().join(format!("tailback-collect-{}", std::process::id()));
        fs::create_dir_all(folder.join("below")).expect("a folder");
        fs::write(folder.join("below/a.qlog"), "12345").expect("a file");
        fs::write(folder.join("other"), "").expect("a file");
        std::os::unix::fs::symlink("/etc/passwd", folder.join("b.qlog")).expect("a link");
        let found = files(&folder, &["*.qlog".into()], 3).expect("read");
        assert_eq!(found.0, [("below/a.qlog".to_owned(), b"123".to_vec())]);
        assert_eq!(found.1.len(), 1);
        fs::remove_dir_all(&folder).expect("removed");
    }
}
