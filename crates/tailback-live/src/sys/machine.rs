//! System calls that only the first process of a machine makes.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use super::check;

/// Mounts a file system of this type, without options.
pub fn mount(kind: &str, place: &str) -> io::Result<()> {
    let (kind, place) = (CString::new(kind)?, CString::new(place)?);
    // SAFETY: the texts outlive the call; no data is passed.
    check(unsafe { libc::mount(kind.as_ptr(), place.as_ptr(), kind.as_ptr(), 0, std::ptr::null()) }).map(drop)
}

/// Returns free pages to the system, wherever in the heap they are.
pub fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes no pointer, and the allocator locks itself.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Length of a /proc clock tick: USER_HZ is 100 on all current machines.
const TICK_MS: u64 = 10;

/// Idle time of this machine's processors, summed (proc(5)).
pub fn idle() -> Duration {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = text.split_whitespace().nth(4).and_then(|text| text.parse::<u64>().ok());
    Duration::from_millis(ticks.unwrap_or(0) * TICK_MS)
}

/// Processor time of a group's processes and of the children they have waited for (proc(5)).
pub fn group_busy(group: u32) -> Duration {
    let ticks = |entry: fs::DirEntry| {
        let text = fs::read_to_string(entry.path().join("stat")).ok()?;
        // Count fields from behind the name, which may contain anything: the third is the group, the 12th to 15th are
        // times.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        (number(2)? == u64::from(group)).then(|| (11..15).filter_map(number).sum::<u64>())
    };
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    Duration::from_millis(all.filter_map(ticks).sum::<u64>() * TICK_MS)
}

/// Gives this process, and the programs it will start, exactly these variables. Call only while there is one thread.
pub fn set_environment(variables: &BTreeMap<String, String>) {
    for (name, _) in std::env::vars_os() {
        // SAFETY: the caller has no other thread.
        unsafe { std::env::remove_var(name) }
    }
    for (name, value) in variables {
        // SAFETY: as above.
        unsafe { std::env::set_var(name, value) }
    }
}

/// Limits the size of files that this process and its programs write.
pub fn limit_files(bytes: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: the structure outlives the call.
    check(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }).map(drop)
}

/// Loads a kernel module from its file, with parameters ("name=value name=value").
pub fn load_module(file: &File, params: &CStr) -> io::Result<()> {
    // SAFETY: the descriptor is open, and the parameter string outlives the call.
    let done = unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), params.as_ptr(), 0) };
    check(done as libc::c_int).map(drop)
}

/// Seeds the kernel's random numbers, so that they repeat as far as the rest of the machine does.
pub fn seed_kernel(seed: u64) -> io::Result<()> {
    /// From linux/random.h; libc has no names for these.
    const RNDADDENTROPY: u32 = 0x4008_5203;
    const RNDRESEEDCRNG: u32 = 0x5207;
    /// The amount of entropy that satisfies the kernel.
    const BITS: libc::c_int = 256;
    #[repr(C)]
    struct Entropy {
        bits: libc::c_int,
        bytes: libc::c_int,
        pool: [u64; 4],
    }
    let device = File::options().write(true).open("/dev/random")?;
    let entropy = Entropy { bits: BITS, bytes: BITS / 8, pool: [seed, 0, 0, 0] };
    // SAFETY: the descriptor is open, and the kernel reads the structure, which has the stated size, before it returns.
    unsafe {
        check(libc::ioctl(device.as_raw_fd(), RNDADDENTROPY as _, &raw const entropy))?;
        check(libc::ioctl(device.as_raw_fd(), RNDRESEEDCRNG as _))?;
    }
    Ok(())
}

/// Shuts the machine down by a restart, on which its emulator exits. Returns only if that is not permitted.
pub fn end_machine() -> io::Error {
    // SAFETY: no pointers.
    unsafe {
        libc::sync();
        libc::reboot(libc::RB_AUTOBOOT);
    }
    io::Error::last_os_error()
}

/// A file mapped as memory that another process reads.
#[derive(Debug)]
pub struct SharedMemory {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: it is owned by one thread at a time, like a vector.
unsafe impl Send for SharedMemory {}

impl SharedMemory {
    /// Maps the first `bytes` bytes of an open file.
    pub fn of(file: &File, bytes: usize) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping that nothing else in this process refers to.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(SharedMemory { start: start.cast(), bytes })
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Always false: an empty file cannot be mapped.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Copies `bytes` to offset `at`; panics if they do not fit.
    pub fn put(&mut self, at: usize, bytes: &[u8]) {
        assert!(at.checked_add(bytes.len()).is_some_and(|end| end <= self.bytes), "{at} of {}", self.bytes);
        // SAFETY: within the mapping, and the two regions do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(at), bytes.len()) }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: ours, and unmapped once.
        unsafe {
            libc::munmap(self.start.cast(), self.bytes);
        }
    }
}
