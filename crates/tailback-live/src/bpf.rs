//! BPF programs: compiled by [`crate::recipe`], loaded with libbpf, removed when dropped.
//!
//! libbpf is opened at run time, not linked: the extension module then builds and imports on machines without it, and
//! `doctor` can report that it is missing.
#![allow(
    unsafe_code,
    reason = "libbpf is a C library; every pointer it hands out is owned by one type below"
)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use crate::error::LiveError;

/// A `struct_ops` map with this flag is kept alive by a link, and the link by a process (linux/bpf.h).
const BPF_F_LINK: u32 = 1 << 13;
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_STRUCT_OPS: u32 = 44;
/// BPF_MAP_TYPE_STRUCT_OPS.
const STRUCT_OPS_MAP: u32 = 26;

type Object = c_void;
type Map = c_void;
type Program = c_void;
type Link = c_void;
type Ring = c_void;
type Print = unsafe extern "C" fn(c_int, *const c_char, *mut c_void) -> c_int;
type Sample = unsafe extern "C" fn(*mut c_void, *mut c_void, usize) -> c_int;

unsafe extern "C" {
    fn vsnprintf(buffer: *mut c_char, size: usize, format: *const c_char, arguments: *mut c_void) -> c_int;
}

/// The libbpf functions we use, by their names since libbpf 1.0.
struct Library {
    open: unsafe extern "C" fn(*const c_void, usize, *const c_void) -> *mut Object,
    load: unsafe extern "C" fn(*mut Object) -> c_int,
    close: unsafe extern "C" fn(*mut Object),
    find_map: unsafe extern "C" fn(*const Object, *const c_char) -> *mut Map,
    next_map: unsafe extern "C" fn(*const Object, *const Map) -> *mut Map,
    map_type: unsafe extern "C" fn(*const Map) -> u32,
    find_program: unsafe extern "C" fn(*const Object, *const c_char) -> *mut Program,
    map_fd: unsafe extern "C" fn(*const Map) -> c_int,
    set_autoload: unsafe extern "C" fn(*mut Program, bool) -> c_int,
    set_map_flags: unsafe extern "C" fn(*mut Map, u32) -> c_int,
    set_initial: unsafe extern "C" fn(*mut Map, *const c_void, usize) -> c_int,
    attach_struct_ops: unsafe extern "C" fn(*const Map) -> *mut Link,
    attach: unsafe extern "C" fn(*const Program) -> *mut Link,
    disconnect: unsafe extern "C" fn(*mut Link),
    destroy: unsafe extern "C" fn(*mut Link) -> c_int,
    ring_new: unsafe extern "C" fn(c_int, Sample, *mut c_void, *const c_void) -> *mut Ring,
    ring_consume: unsafe extern "C" fn(*mut Ring) -> c_int,
    ring_free: unsafe extern "C" fn(*mut Ring),
    lookup: unsafe extern "C" fn(c_int, *const c_void, *mut c_void) -> c_int,
}

fn library() -> Result<&'static Library, LiveError> {
    static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
    LIBRARY.get_or_init(open_library).as_ref().map_err(|error| LiveError::Failed(error.clone()))
}

#[allow(clippy::missing_transmute_annotations, reason = "the types are those of the fields they fill")]
fn open_library() -> Result<Library, String> {
    // SAFETY: loading libbpf runs no constructors that matter; the handle is never closed, so the functions stay valid.
    // Each has the type that its header declares.
    unsafe {
        let handle = libc::dlopen(c"libbpf.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        if handle.is_null() {
            return Err("libbpf.so.1 is not installed".into());
        }
        let find = |name: &CStr| {
            let found = libc::dlsym(handle, name.as_ptr());
            if found.is_null() { Err(format!("libbpf has no {}", name.to_string_lossy())) } else { Ok(found) }
        };
        macro_rules! function {
            ($name:literal) => {
                std::mem::transmute(find($name)?)
            };
        }
        let set_print: unsafe extern "C" fn(Print) -> *mut c_void = function!(c"libbpf_set_print");
        set_print(hear);
        Ok(Library {
            open: function!(c"bpf_object__open_mem"),
            load: function!(c"bpf_object__load"),
            close: function!(c"bpf_object__close"),
            find_map: function!(c"bpf_object__find_map_by_name"),
            next_map: function!(c"bpf_object__next_map"),
            map_type: function!(c"bpf_map__type"),
            find_program: function!(c"bpf_object__find_program_by_name"),
            map_fd: function!(c"bpf_map__fd"),
            set_autoload: function!(c"bpf_program__set_autoload"),
            set_map_flags: function!(c"bpf_map__set_map_flags"),
            set_initial: function!(c"bpf_map__set_initial_value"),
            attach_struct_ops: function!(c"bpf_map__attach_struct_ops"),
            attach: function!(c"bpf_program__attach"),
            disconnect: function!(c"bpf_link__disconnect"),
            destroy: function!(c"bpf_link__destroy"),
            ring_new: function!(c"ring_buffer__new"),
            ring_consume: function!(c"ring_buffer__consume"),
            ring_free: function!(c"ring_buffer__free"),
            lookup: function!(c"bpf_map_lookup_elem"),
        })
    }
}

/// How many lines of one libbpf message are kept; the last ones.
const MOST_LINES: usize = 8;
/// libbpf's messages since the last failure, which say why it failed.
static HEARD: Mutex<Vec<String>> = Mutex::new(Vec::new());

unsafe extern "C" fn hear(level: c_int, format: *const c_char, arguments: *mut c_void) -> c_int {
    const DEBUG: c_int = 2;
    if level < DEBUG {
        // The verifier's entire log is one message.
        let mut buffer = vec![0u8; 1 << 20];
        // SAFETY: libbpf passes a format with its arguments; the buffer's size is given.
        unsafe { vsnprintf(buffer.as_mut_ptr().cast(), buffer.len(), format, arguments) };
        let text = CStr::from_bytes_until_nul(&buffer).map(CStr::to_string_lossy).unwrap_or_default();
        if let Ok(mut heard) = HEARD.lock() {
            let lines: Vec<&str> = text.trim_end().lines().collect();
            heard.push(lines[lines.len().saturating_sub(MOST_LINES)..].join("\n"));
        }
    }
    0
}

/// The last lines of libbpf's messages; the verifier's log ends with the reason.
fn heard() -> String {
    let lines = HEARD.lock().map(|mut heard| std::mem::take(&mut *heard)).unwrap_or_default();
    let kept = lines.len().saturating_sub(6);
    lines[kept..].join("; ")
}

/// Whether BPF programs can be loaded.
pub fn is_available() -> Result<(), LiveError> {
    library().map(drop)
}

/// What keeps a congestion control registered in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// A descriptor, so that it is removed with the process: Linux 6.4 and later.
    ByProcess,
    /// The kernel, until it shuts down: for a machine that ends with the run.
    ByKernel,
}

/// A loaded object; its programs are unloaded when it is dropped.
pub struct Loaded {
    name: String,
    object: *mut Object,
    library: &'static Library,
    links: Vec<*mut Link>,
}

// SAFETY: different threads may use an object one after another; nothing here shares it between threads.
unsafe impl Send for Loaded {}

impl Loaded {
    /// Loads a compiled program. A congestion control in it is prepared to be kept by a link.
    pub fn load(name: &str, object: &[u8]) -> Result<Self, LiveError> {
        Self::load_held(name, object, Held::ByProcess)
    }

    /// Like [`Loaded::load`], but a congestion control in it is prepared to be kept as `held` says.
    pub fn load_held(name: &str, object: &[u8], held: Held) -> Result<Self, LiveError> {
        Self::load_as(name, object, &[], None, held)
    }

    /// Like [`Loaded::load`], for the hosts with these namespace numbers and without one of its programs.
    pub fn load_for(
        name: &str,
        object: &[u8],
        hosts: &[u64],
        left_out: Option<&CStr>,
    ) -> Result<Self, LiveError> {
        Self::load_as(name, object, hosts, left_out, Held::ByProcess)
    }

    fn load_as(
        name: &str,
        object: &[u8],
        hosts: &[u64],
        left_out: Option<&CStr>,
        held: Held,
    ) -> Result<Self, LiveError> {
        let library = library()?;
        let fail = |what: &str| {
            let why = io::Error::last_os_error();
            LiveError::Failed(format!("{what} the BPF program {name}: {why} ({})", heard()))
        };
        heard();
        // SAFETY: libbpf copies the object; `Loaded` owns the result from the next line on.
        unsafe {
            let opened = (library.open)(object.as_ptr().cast(), object.len(), ptr::null());
            if opened.is_null() {
                return Err(fail("opening"));
            }
            let loaded = Loaded { name: name.into(), object: opened, library, links: Vec::new() };
            let twin = loaded.congestion_control();
            let by_link = !twin.is_null() && held == Held::ByProcess;
            if by_link && (library.set_map_flags)(twin, BPF_F_LINK) != 0 {
                return Err(fail("preparing"));
            }
            let ours = (library.find_map)(opened, c".rodata.ours".as_ptr());
            if !ours.is_null() {
                // The program stores them as 32-bit numbers, which they are.
                let numbers: Vec<u32> = hosts.iter().map(|number| *number as u32).collect();
                if (library.set_initial)(ours, numbers.as_ptr().cast(), size_of_val(numbers.as_slice())) != 0
                {
                    return Err(fail("telling the hosts to"));
                }
            }
            if let Some(program) = left_out {
                (library.set_autoload)((library.find_program)(opened, program.as_ptr()), false);
            }
            if (library.load)(opened) != 0 {
                return Err(fail("loading"));
            }
            Ok(loaded)
        }
    }

    /// The object's congestion control; null if it has none.
    fn congestion_control(&self) -> *mut Map {
        // SAFETY: walks the maps of our object to the end.
        unsafe {
            let next = |map: *mut Map| (self.library.next_map)(self.object, map);
            let mut map = next(ptr::null_mut());
            while !map.is_null() && (self.library.map_type)(map) != STRUCT_OPS_MAP {
                map = next(map);
            }
            map
        }
    }

    /// Registers the congestion control of an object that was loaded to be kept by the kernel.
    pub fn register_for_good(&mut self) -> Result<(), LiveError> {
        let library = self.library;
        heard();
        // SAFETY: the map belongs to our object; the link is released without being destroyed.
        unsafe {
            let link = (library.attach_struct_ops)(self.congestion_control());
            if link.is_null() {
                return Err(self.failed("registering"));
            }
            (library.disconnect)(link);
            (library.destroy)(link);
        }
        Ok(())
    }

    /// Registers the congestion control for as long as the returned descriptor is open.
    pub fn register(&mut self) -> Result<OwnedFd, LiveError> {
        let library = self.library;
        heard();
        // SAFETY: the map belongs to our object; the attribute block outlives the call and has the given size.
        unsafe {
            let twin = self.congestion_control();
            let values = (library.attach_struct_ops)(twin);
            if values.is_null() {
                return Err(self.failed("filling in"));
            }
            // Only the map's values are needed: this older kind of registration is not tied to a process.
            (library.disconnect)(values);
            (library.destroy)(values);
            let attributes: [u32; 4] = [(library.map_fd)(twin) as u32, 0, BPF_STRUCT_OPS, 0];
            let link = libc::syscall(
                libc::SYS_bpf,
                BPF_LINK_CREATE,
                attributes.as_ptr(),
                std::mem::size_of_val(&attributes),
            );
            if link < 0 {
                return Err(self.failed("registering"));
            }
            Ok(OwnedFd::from_raw_fd(link as c_int))
        }
    }

    /// Attaches a program at the place that its section names.
    pub fn attach(&mut self, program: &str) -> Result<(), LiveError> {
        let name = CString::new(program).expect("names of ours have no zero");
        heard();
        // SAFETY: the program belongs to our object; the link is destroyed before it.
        unsafe {
            let found = (self.library.find_program)(self.object, name.as_ptr());
            if found.is_null() {
                return Err(self.failed("finding a part of"));
            }
            let link = (self.library.attach)(found);
            if link.is_null() {
                return Err(self.failed("attaching"));
            }
            self.links.push(link);
        }
        Ok(())
    }

    /// A reader for the ring buffer `map`.
    pub fn ring(&self, map: &str) -> Result<RingReader, LiveError> {
        let fd = self.map_fd(map);
        let mut rows = Box::new(Vec::new());
        // SAFETY: `rows` is boxed, so its address is stable; it is dropped after the ring.
        let ring = unsafe { (self.library.ring_new)(fd, take_row, (&raw mut *rows).cast(), ptr::null()) };
        if ring.is_null() {
            return Err(self.failed("reading from"));
        }
        Ok(RingReader { ring, rows, library: self.library })
    }

    /// The number at index 0 of the array `map`.
    pub fn number(&self, map: &str) -> u64 {
        let (key, mut value) = (0u32, 0u64);
        // SAFETY: key and value have the sizes the map was declared with.
        unsafe {
            (self.library.lookup)(self.map_fd(map), (&raw const key).cast(), (&raw mut value).cast());
        }
        value
    }

    /// Maps the contents of the mappable array `map`, `words` 64-bit words long, into memory.
    pub fn memory(&self, map: &str, words: usize) -> Result<Memory, LiveError> {
        let bytes = words * size_of::<u64>();
        // SAFETY: a new read-only mapping that nothing else in this process refers to.
        let start = unsafe {
            libc::mmap(ptr::null_mut(), bytes, libc::PROT_READ, libc::MAP_SHARED, self.map_fd(map), 0)
        };
        if start == libc::MAP_FAILED { Err(self.failed("mapping")) } else { Ok(Memory { start, words }) }
    }

    fn map_fd(&self, map: &str) -> c_int {
        let name = CString::new(map).expect("names of ours have no zero");
        // SAFETY: a lookup by name in our object.
        unsafe {
            let found = (self.library.find_map)(self.object, name.as_ptr());
            if found.is_null() { -1 } else { (self.library.map_fd)(found) }
        }
    }

    fn failed(&self, what: &str) -> LiveError {
        let why = io::Error::last_os_error();
        LiveError::Failed(format!("{what} the BPF program {}: {why} ({})", self.name, heard()))
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: the links and the object are ours and are destroyed once, links first.
        unsafe {
            for link in self.links.drain(..) {
                (self.library.destroy)(link);
            }
            (self.library.close)(self.object);
        }
    }
}

/// Memory that a BPF program writes and this process reads.
pub struct Memory {
    start: *mut c_void,
    words: usize,
}

// SAFETY: it is only read, one word at a time and atomically.
unsafe impl Send for Memory {}

impl Memory {
    /// A word (acquire ordering: everything the program wrote before it is visible).
    pub fn word(&self, index: usize) -> u64 {
        assert!(index < self.words, "word {index} of {}", self.words);
        // SAFETY: within the mapping, and aligned because the mapping starts at a page.
        unsafe { (*self.start.cast::<AtomicU64>().add(index)).load(Ordering::Acquire) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: ours, and unmapped once.
        unsafe {
            libc::munmap(self.start, self.words * size_of::<u64>());
        }
    }
}

/// Reads a ring buffer.
pub struct RingReader {
    ring: *mut Ring,
    #[allow(clippy::box_collection, reason = "libbpf keeps the vector's address")]
    rows: Box<Vec<Vec<u8>>>,
    library: &'static Library,
}

// SAFETY: used by one thread after another, never shared.
unsafe impl Send for RingReader {}

impl RingReader {
    /// Takes the rows that are available.
    pub fn take(&mut self) -> Vec<Vec<u8>> {
        // SAFETY: the ring is ours; it calls `take_row` with our boxed vector.
        unsafe {
            (self.library.ring_consume)(self.ring);
        }
        std::mem::take(&mut *self.rows)
    }
}

impl Drop for RingReader {
    fn drop(&mut self) {
        // SAFETY: ours, and freed once.
        unsafe { (self.library.ring_free)(self.ring) }
    }
}

unsafe extern "C" fn take_row(rows: *mut c_void, data: *mut c_void, size: usize) -> c_int {
    // SAFETY: `rows` is the vector given to `ring_new`; `data` holds `size` bytes during this call.
    unsafe {
        let rows = &mut *rows.cast::<Vec<Vec<u8>>>();
        rows.push(std::slice::from_raw_parts(data.cast::<u8>(), size).to_vec());
    }
    0
}

/// The number of a namespace, as BPF programs see it.
pub fn namespace_number(namespace: BorrowedFd<'_>) -> io::Result<u64> {
    use std::os::linux::fs::MetadataExt;
    let file = std::fs::File::open(format!("/proc/self/fd/{}", namespace.as_raw_fd()))?;
    Ok(file.metadata()?.st_ino())
}
