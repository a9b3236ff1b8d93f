//! Kernel messages of a guest during a run.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

use crate::error::{Doing, LiveError};

/// Messages of this level and below are warnings and errors (syslog(2)).
const WARNING: u32 = 4;
/// The kernel refuses a read into a buffer smaller than a record may be.
const RECORD_BYTES: usize = 8192;

/// The kernel's messages from the time it was opened.
#[derive(Debug)]
pub struct KernelLog(File);

impl KernelLog {
    /// Starts after the latest message.
    pub fn open() -> Result<Self, LiveError> {
        let what = "opening the kernel's log";
        let options = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg");
        let mut file = options.doing(what)?;
        file.seek(SeekFrom::End(0)).doing(what)?;
        Ok(KernelLog(file))
    }

    /// Warnings and errors since the last call.
    pub fn warnings(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut record = vec![0; RECORD_BYTES];
        loop {
            match self.0.read(&mut record) {
                Ok(0) => return lines,
                Ok(length) => lines.extend(warning(&String::from_utf8_lossy(&record[..length]))),
                // Messages were overwritten before they were read: the next read continues after them.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
                Err(_) => return lines,
            }
        }
    }
}

/// The message of a record ("level,number,time,flags;message"), if it is a warning or an error.
fn warning(record: &str) -> Option<String> {
    let (head, message) = record.split_once(';')?;
    let priority: u32 = head.split(',').next()?.parse().ok()?;
    // The bits above the three level bits are the facility.
    (priority & 7 <= WARNING).then(|| message.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_warnings_are_kept_and_without_their_fields() {
        assert_eq!(warning("4,101,5000,-;WARNING: CPU: 0\n SUBSYSTEM=net\n"), Some("WARNING: CPU: 0".into()));
        assert_eq!(warning("12,102,5000,-;written by a program\n"), Some("written by a program".into()));
        assert_eq!(warning("6,103,5000,-;random: crng init done\n"), None);
    }
}
