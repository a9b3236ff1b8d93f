//! The start order of programs: a program may wait for its own server and for programs of other flows.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use tailback_core::traffic::exec::{After, Readiness};

use super::MOST_OUTPUT;

/// The tables in which the kernel lists sockets by address, and the state code of a socket that waits for peers.
const LISTS: [(&str, &str); 4] = [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")];

/// State of one flow's programs, for programs of other flows that wait for them.
#[derive(Debug, Default)]
pub struct Progress {
    is_served: AtomicBool,
    is_over: AtomicBool,
}

impl Progress {
    /// Records that the server is ready.
    pub fn serve(&self) {
        self.is_served.store(true, Ordering::Release);
    }

    /// Records that the client has ended.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }
}

/// Whether every server that this flow's server waits for is ready.
pub fn may_serve(after: &[After], all: &[Progress]) -> bool {
    after.iter().all(|it| match it {
        After::Server(flow) => all[*flow].is_served.load(Ordering::Acquire),
        After::Client(_) => true,
    })
}

/// Whether every client that this flow's client waits for has ended.
pub fn may_begin(after: &[After], all: &[Progress]) -> bool {
    after.iter().all(|it| match it {
        After::Server(_) => true,
        After::Client(flow) => all[*flow].is_over.load(Ordering::Acquire),
    })
}

/// Where to look for signs that a server is ready.
#[derive(Debug)]
pub struct Place<'a> {
    /// A process in its network namespace.
    pub process: u32,
    /// The port on which the server should listen.
    pub port: u16,
    /// Its working folder.
    pub folder: &'a Path,
    /// The files with its output.
    pub outputs: [&'a Path; 2],
}

/// Whether the server is ready.
pub fn is_ready(by: &Readiness, place: &Place<'_>) -> bool {
    match by {
        Readiness::Port => is_listening(place.process, place.port),
        Readiness::File(name) => place.folder.join(name).exists(),
        Readiness::Line(part) => place.outputs.iter().any(|path| has_line(path, part)),
    }
}

/// What a server does when it becomes ready, worded to follow "did not" and "before it".
pub fn in_words(by: &Readiness, port: u16) -> [String; 2] {
    let (verb, past, what) = match by {
        Readiness::Port => ("listen", "listened", format!("on port {port}")),
        Readiness::File(name) => ("write", "wrote", format!("the file {name}")),
        Readiness::Line(part) => ("print", "printed", format!("a line with {part:?}")),
    };
    [format!("{verb} {what}"), format!("{past} {what}")]
}

/// Whether a socket in this process's network namespace listens on the port.
fn is_listening(process: u32, port: u16) -> bool {
    let wanted = format!(":{port:04X}");
    LISTS.iter().any(|(list, waiting)| {
        let text = fs::read_to_string(format!("/proc/{process}/net/{list}")).unwrap_or_default();
        text.lines().skip(1).any(|line| {
            let fields: Vec<&str> = line.split_whitespace().take(4).collect();
            matches!(fields[..], [_, local, _, state] if local.ends_with(&wanted) && state == *waiting)
        })
    })
}

/// Whether a complete line of the file contains `part`.
fn has_line(path: &Path, part: &str) -> bool {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MOST_OUTPUT).read_to_end(&mut text));
    let text = String::from_utf8_lossy(&text);
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    read.is_ok() && whole.lines().any(|line| line.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_and_a_whole_line_are_signs() {
        let folder = std::env::temp_dir().join(format!("tailback-order-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let (out, err) = (folder.join("out"), folder.join("err"));
        let place = Place { process: 0, port: 1, folder: &folder, outputs: [&out, &err] };
        let (file, line) = (Readiness::File("up".into()), Readiness::Line("listening".into()));
        assert!(!is_ready(&file, &place) && !is_ready(&line, &place));
        fs::write(&err, "now listening").expect("written");
        assert!(!is_ready(&line, &place), "the line may go on");
        fs::write(&err, "now listening on 1\n").expect("written");
        fs::write(folder.join("up"), "").expect("written");
        assert!(is_ready(&file, &place) && is_ready(&line, &place));
        fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn servers_wait_for_servers_and_clients_for_clients() {
        let all = [Progress::default(), Progress::default()];
        let after = [After::Server(0), After::Client(1)];
        assert!(!may_serve(&after, &all) && !may_begin(&after, &all));
        all[0].serve();
        assert!(may_serve(&after, &all) && !may_begin(&after, &all));
        all[1].end();
        assert!(may_begin(&after, &all) && !may_begin(&[After::Client(0)], &all));
    }
}
