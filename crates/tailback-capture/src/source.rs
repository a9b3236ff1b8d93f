//! Reads capture files as a stream of frames, independent of the format.
//!
//! Supported are pcap (micro- and nanoseconds, either byte order) and pcapng (any interfaces, any resolution), plain or
//! compressed with gzip or zstd. Truncated or damaged data ends the stream; frames read before remain valid, and
//! [`Source::trouble`] says what happened.

use std::fmt;
use std::fs::File;
use std::io::{self, Chain, Cursor, Read};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
use pcap_parser::{Block, Linktype, OptionCode, PcapBlockOwned, PcapError, create_reader};

/// Bytes read per call.
const ROOM: usize = 1 << 20;
/// The largest valid block: a packet has up to 64 KiB, and options or secrets may be long.
const LARGEST: usize = 1 << 25;

/// Why a file is not a capture.
#[derive(Debug)]
pub enum NoCapture {
    /// Reading failed.
    Io(io::Error),
    /// It is empty.
    Empty,
    /// It starts like neither pcap nor pcapng; these are its first bytes.
    Unknown(Vec<u8>),
}

impl fmt::Display for NoCapture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoCapture::Io(error) => write!(f, "cannot be read: {error}"),
            NoCapture::Empty => f.write_str("is empty"),
            NoCapture::Unknown(start) => {
                write!(f, "is no capture: it begins with")?;
                start.iter().try_for_each(|byte| write!(f, " {byte:02x}"))?;
                write!(f, ", and pcap with d4 c3 b2 a1 (or its variants), pcapng with 0a 0d 0d 0a")
            }
        }
    }
}

impl std::error::Error for NoCapture {}

/// An interface of a pcapng section, or a pcap file's only one.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link: Linktype,
    /// Time stamps are in units of 10^-n seconds, or of 2^-n if `is_binary`.
    resolution: u8,
    is_binary: bool,
    offset_s: i64,
    snap: u32,
}

impl Interface {
    /// Converts a time stamp to nanoseconds since 1970; times outside 1970 to 2554 are clamped.
    fn ns(&self, stamp: u64) -> u64 {
        let stamp = u128::from(stamp);
        let ns = if self.is_binary {
            (stamp * 1_000_000_000) >> self.resolution
        } else if self.resolution <= 9 {
            stamp * 10u128.pow(u32::from(9 - self.resolution))
        } else {
            stamp / 10u128.pow(u32::from(self.resolution - 9).min(30))
        };
        let ns =
            i128::try_from(ns).unwrap_or(i128::MAX).saturating_add(i128::from(self.offset_s) * 1_000_000_000);
        u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
    }
}

/// A frame as it was captured.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Time in nanoseconds since 1970.
    pub t_ns: u64,
    /// The link type: the kind of the first header.
    pub link: Linktype,
    /// The bytes kept.
    pub data: &'a [u8],
    /// Original length in bytes.
    pub wire_bytes: u32,
}

/// A capture being read.
pub struct Source {
    reader: Box<dyn PcapReaderIterator + Send>,
    interfaces: Vec<Interface>,
    /// For a pcap file: nanoseconds per unit of the fractional half of a time stamp.
    legacy_fraction_ns: u64,
    room: usize,
    /// Frames read.
    pub frames: u64,
    /// Bytes read, counted after decompression.
    pub bytes: u64,
    /// What ended the stream early, if anything did.
    pub trouble: Option<String>,
    broken: Broken,
    is_over: bool,
}

type Prefixed<R> = Chain<Cursor<Vec<u8>>, R>;

/// Decompresses a gzip or zstd stream.
fn plain(mut file: impl Read + Send + 'static) -> Result<Box<dyn Read + Send>, NoCapture> {
    let mut start = vec![0; 4];
    let mut filled = 0;
    while filled < start.len() {
        match file.read(&mut start[filled..]).map_err(NoCapture::Io)? {
            0 => break,
            count => filled += count,
        }
    }
    start.truncate(filled);
    let is_gzip = start.starts_with(&[0x1f, 0x8b]);
    let is_zstd = start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]);
    let whole: Prefixed<_> = Cursor::new(start).chain(file);
    if is_gzip {
        return Ok(Box::new(flate2::read::MultiGzDecoder::new(whole)));
    }
    if is_zstd {
        let decoder = ruzstd::decoding::StreamingDecoder::new(whole)
            .map_err(|error| NoCapture::Io(io::Error::other(error.to_string())))?;
        return Ok(Box::new(decoder));
    }
    Ok(Box::new(whole))
}

/// Fills each read as far as possible, because the framing code asks once and takes a short read for the end.
///
/// A stream error ends the stream and is stored, because the framing code would report it as "no capture".
struct Filling<R> {
    stream: R,
    broken: Broken,
}

/// The stream's error, if any.
type Broken = Arc<OnceLock<String>>;

impl<R: Read> Read for Filling<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < out.len() && self.broken.get().is_none() {
            match self.stream.read(&mut out[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => _ = self.broken.set(error.to_string()),
            }
        }
        Ok(filled)
    }
}

impl Source {
    /// Opens a file.
    pub fn open(path: &Path) -> Result<Self, NoCapture> {
        Self::of(plain(File::open(path).map_err(NoCapture::Io)?)?)
    }

    /// Reads a capture from memory.
    pub fn in_memory(bytes: Vec<u8>) -> Result<Self, NoCapture> {
        Self::of(plain(Cursor::new(bytes))?)
    }

    /// Reads a capture from a stream.
    pub fn of(stream: impl Read + Send + 'static) -> Result<Self, NoCapture> {
        let broken = Broken::default();
        let mut stream = Filling { stream, broken: broken.clone() };
        let mut start = vec![0; 12];
        let count = stream.read(&mut start).map_err(NoCapture::Io)?;
        start.truncate(count);
        if let Some(error) = broken.get().filter(|_| count < 12) {
            return Err(NoCapture::Io(io::Error::other(error.clone())));
        }
        let begins = start.clone();
        // The start must be readable even if the rest is damaged.
        let whole = Filling { stream: Cursor::new(start).chain(stream), broken: Broken::default() };
        match create_reader(ROOM, whole) {
            Ok(reader) => Ok(Source {
                reader,
                interfaces: Vec::new(),
                legacy_fraction_ns: 1000,
                room: ROOM,
                frames: 0,
                bytes: 0,
                trouble: None,
                broken,
                is_over: false,
            }),
            Err(_) if begins.is_empty() => Err(NoCapture::Empty),
            Err(_) => Err(NoCapture::Unknown(begins)),
        }
    }

    /// Passes each frame to `visit` until it returns `false` or the stream ends. Returns true once the stream has
    /// ended.
    pub fn each(&mut self, mut visit: impl FnMut(Frame<'_>) -> bool) -> bool {
        while !self.is_over {
            match self.step(&mut visit) {
                Step::Frame(true) | Step::Other => {}
                Step::Frame(false) => return false,
                Step::Over => self.is_over = true,
            }
        }
        if let Some(error) = self.broken.get() {
            self.trouble =
                Some(format!("the file cannot be read on, {} bytes from the beginning: {error}", self.bytes));
        }
        true
    }

    fn step(&mut self, visit: &mut impl FnMut(Frame<'_>) -> bool) -> Step {
        let Source { reader, interfaces, legacy_fraction_ns, frames, .. } = self;
        let before = reader.data().len();
        let failure = match reader.next() {
            Ok((offset, block)) => {
                let outcome = match frame_of(&block, interfaces, legacy_fraction_ns) {
                    Ok(Some(frame)) => {
                        *frames += 1;
                        Step::Frame(visit(frame))
                    }
                    Ok(None) => Step::Other,
                    Err(trouble) => {
                        self.trouble = Some(trouble);
                        return Step::Over;
                    }
                };
                self.bytes += offset as u64;
                self.reader.consume(offset);
                return outcome;
            }
            Err(PcapError::Eof) => return Step::Over,
            Err(PcapError::Incomplete(_)) => None,
            Err(PcapError::BufferTooSmall) => Some("a block is larger than the reader's room".to_owned()),
            Err(PcapError::UnexpectedEof) => Some("the file is cut off in the middle of a block".to_owned()),
            Err(_) => Some("a block is damaged".to_owned()),
        };
        match failure {
            None => {
                if self.reader.refill().is_err() {
                    self.trouble = Some("the file could not be read on".into());
                    return Step::Over;
                }
                if self.reader.data().len() == before && !self.reader.reader_exhausted() {
                    return self.grow();
                }
                if self.reader.data().is_empty() { Step::Over } else { Step::Other }
            }
            Some(what) if what.starts_with("a block is larger") => self.grow(),
            Some(what) => {
                self.trouble = Some(format!("{what}, {} bytes from the beginning", self.bytes));
                Step::Over
            }
        }
    }

    /// Enlarges the buffer for a large block, up to a limit.
    fn grow(&mut self) -> Step {
        self.room *= 2;
        if self.room > LARGEST || !self.reader.grow(self.room) {
            self.trouble = Some(format!(
                "a block claims more than {} MiB, {} bytes from the beginning",
                LARGEST >> 20,
                self.bytes
            ));
            return Step::Over;
        }
        let _ = self.reader.refill();
        Step::Other
    }
}

enum Step {
    /// A frame; the value is whether the visitor wants more.
    Frame(bool),
    /// A block without a frame.
    Other,
    /// The end of the stream.
    Over,
}

fn interface_of(idb: &pcap_parser::InterfaceDescriptionBlock<'_>) -> Interface {
    let raw = idb.if_tsresol;
    let offset =
        idb.options.iter().find(|option| option.code == OptionCode::IfTsoffset && option.value.len() >= 8);
    let offset = offset.map_or(0, |option| {
        let bytes: [u8; 8] = option.value[..8].try_into().expect("eight bytes");
        // The value is in the section's byte order, which the parsed block type shows.
        if idb.block_type == 1 { i64::from_le_bytes(bytes) } else { i64::from_be_bytes(bytes) }
    });
    Interface {
        link: idb.linktype,
        resolution: raw & 0x7f,
        is_binary: raw & 0x80 != 0,
        offset_s: offset,
        snap: idb.snaplen,
    }
}

fn frame_of<'a>(
    block: &'a PcapBlockOwned<'_>,
    interfaces: &mut Vec<Interface>,
    legacy_fraction_ns: &mut u64,
) -> Result<Option<Frame<'a>>, String> {
    match block {
        PcapBlockOwned::LegacyHeader(header) => {
            *legacy_fraction_ns = if header.is_nanosecond_precision() { 1 } else { 1000 };
            let snap = header.snaplen;
            interfaces.push(Interface {
                link: header.network,
                resolution: 9,
                is_binary: false,
                offset_s: 0,
                snap,
            });
            Ok(None)
        }
        PcapBlockOwned::Legacy(it) => {
            let link = interfaces.first().map_or(Linktype(-1), |it| it.link);
            let fraction = u64::from(it.ts_usec) * *legacy_fraction_ns;
            let t_ns = u64::from(it.ts_sec) * 1_000_000_000 + fraction;
            Ok(Some(Frame { t_ns, link, data: it.data, wire_bytes: it.origlen.max(it.caplen) }))
        }
        PcapBlockOwned::NG(Block::SectionHeader(_)) => {
            interfaces.clear();
            Ok(None)
        }
        PcapBlockOwned::NG(Block::InterfaceDescription(idb)) => {
            interfaces.push(interface_of(idb));
            Ok(None)
        }
        PcapBlockOwned::NG(Block::EnhancedPacket(it)) => {
            let Some(interface) = interfaces.get(it.if_id as usize) else {
                return Err(format!(
                    "a packet names interface {}, and there are {}",
                    it.if_id,
                    interfaces.len()
                ));
            };
            let t_ns = interface.ns(u64::from(it.ts_high) << 32 | u64::from(it.ts_low));
            let data = it.packet_data();
            Ok(Some(Frame {
                t_ns,
                link: interface.link,
                data,
                wire_bytes: it.origlen.max(data.len() as u32),
            }))
        }
        PcapBlockOwned::NG(Block::SimplePacket(it)) => {
            let Some(interface) = interfaces.first() else {
                return Err("a packet comes before any interface is described".into());
            };
            let kept = if interface.snap == 0 { it.origlen } else { it.origlen.min(interface.snap) };
            let data = &it.data[..it.data.len().min(kept as usize)];
            // A simple packet block has no time stamp.
            Ok(Some(Frame { t_ns: 0, link: interface.link, data, wire_bytes: it.origlen }))
        }
        PcapBlockOwned::NG(_) => Ok(None),
    }
}
