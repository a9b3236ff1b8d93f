//! Splits command lines into words as a shell does, without using one, and fills their placeholders.

use std::borrow::Cow;
use std::net::Ipv6Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The values of placeholders.
pub type Values<'a> = Vec<(&'static str, Cow<'a, str>)>;

/// The words of a command line; `None` if a quotation is not closed.
pub fn cut(line: &str) -> Option<Vec<String>> {
    shlex::split(line)
}

/// Replaces each `{name}` by its value; an unknown name is returned as the error.
///
/// `%{…}` and `${…}` belong to curl and the shell and are left alone, `{{name}}` yields `{name}`, and other braces stay
/// as they are.
pub fn fill(word: &str, values: &Values<'_>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = word;
    while let Some(at) = rest.find('{') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let name_of = |text: &str| {
            let name = text.split_once('}')?.0;
            let is_name =
                !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
            is_name.then(|| name.to_owned())
        };
        let is_foreign = before.ends_with(['%', '$']);
        if let Some(name) =
            from.strip_prefix("{{").and_then(name_of).filter(|name| from[name.len() + 2..].starts_with("}}"))
        {
            out.push_str(&format!("{{{name}}}"));
            rest = &from[name.len() + 4..];
        } else if let Some(name) = name_of(&from[1..]).filter(|_| !is_foreign) {
            let (_, value) = values.iter().find(|(known, _)| *known == name).ok_or(name.clone())?;
            out.push_str(value);
            rest = &from[name.len() + 2..];
        } else {
            out.push('{');
            rest = &from[1..];
        }
    }
    out.push_str(rest);
    Ok(out)
}

/// Remedy if programs ask for IPv6 and fail.
pub const ASKS_FOR_V6: &str = "; its command asks for IPv6, and the flow's hosts have none: set ip = 6 in the flow, or use {server_addr}";

/// Whether a command line asks for IPv6: by the option that most programs use, or by an address that belongs to no
/// host.
pub fn ask_for_v6(words: &[String]) -> bool {
    let is_address = |part: &str| {
        part.parse::<Ipv6Addr>().is_ok_and(|address| !address.is_unspecified() && !address.is_loopback())
    };
    words.iter().any(|word| {
        ["-6", "--ipv6"].contains(&word.as_str())
            || is_address(word)
            || word.split(['[', ']']).nth(1).is_some_and(is_address)
    })
}

/// The program's path; `None` if it is not installed.
pub fn find(program: &str) -> Option<PathBuf> {
    let is_program = |path: &Path| {
        path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| is_program(path));
    }
    let places = std::env::var_os("PATH")?;
    std::env::split_paths(&places).map(|place| place.join(program)).find(|path| is_program(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_and_other_braces_are_left() {
        let values: Values<'_> = vec![("port", "5001".into()), ("dir", "/a b".into())];
        let filled = |word: &str| fill(word, &values);
        assert_eq!(filled("-p{port}").unwrap(), "-p5001");
        assert_eq!(filled("{dir}/{port}.txt").unwrap(), "/a b/5001.txt");
        assert_eq!(filled("%{time_total} ${port}").unwrap(), "%{time_total} ${port}");
        assert_eq!(filled("{print $1}").unwrap(), "{print $1}");
        assert_eq!(filled("x{3} {}").unwrap(), "x{3} {}");
        assert_eq!(filled("{{port}}").unwrap(), "{port}");
        assert_eq!(filled("{{port}").unwrap(), "{5001");
        assert_eq!(filled("a{").unwrap(), "a{");
        assert_eq!(filled("{prot}").unwrap_err(), "prot");
    }

    #[test]
    fn words_are_cut_before_they_are_filled() {
        let words = cut("sh -c 'echo \"{dir}\"; x' plain").unwrap();
        assert_eq!(words, ["sh", "-c", "echo \"{dir}\"; x", "plain"]);
        assert_eq!(cut("echo 'open"), None);
    }

    #[test]
    fn a_command_that_asks_for_ipv6_is_known() {
        let asks = |line: &str| ask_for_v6(&cut(line).expect("words"));
        for line in ["iperf3 -6 -c x", "curl --ipv6 x", "ping 2001:db8::1", "curl 'http://[fd00::1]:80/'"] {
            assert!(asks(line), "{line}");
        }
        for line in ["server --listen '[::]:80'", "ping 10.0.0.2", "at 12:30", "nc ::1 80", "tool -64"] {
            assert!(!asks(line), "{line}");
        }
    }

    #[test]
    fn programs_are_found_where_the_shell_finds_them() {
        assert!(find("sh").is_some_and(|path| path.ends_with("sh")));
        assert!(find("/bin/sh").is_some());
        assert_eq!(find("nonesuch-of-tailback"), None);
        assert_eq!(find("/etc/passwd"), None);
    }
}
