//! Writes captures: pcapng with one section, one interface and nanosecond time stamps.
//!
//! Source: draft-ietf-opsawg-pcapng, sections 4.1 (section header), 4.2 (interface description), 4.3 (enhanced packet).

use std::io::{self, Write};

const ETHERNET: u16 = 1;
const OPTION_END: u16 = 0;
const OPTION_COMMENT: u16 = 1;
const SECTION_APPLICATION: u16 = 4;
const INTERFACE_NAME: u16 = 2;
const INTERFACE_DESCRIPTION: u16 = 3;
/// Time stamps are in units of 10^-n seconds.
const INTERFACE_RESOLUTION: u16 = 9;

/// Descriptive texts in the file.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// A comment on the file.
    pub comment: String,
    /// The interface's name: the capture point.
    pub name: String,
    /// A description of the point.
    pub description: String,
    /// Bytes kept per frame; 0 keeps all.
    pub snap: u32,
}

/// Writes one pcapng file.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    snap: usize,
    block: Vec<u8>,
    /// Packets written.
    pub packets: u64,
}

fn option(block: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(65_532)];
    block.extend_from_slice(&code.to_le_bytes());
    block.extend_from_slice(&(value.len() as u16).to_le_bytes());
    block.extend_from_slice(value);
    pad(block);
}

fn text(block: &mut Vec<u8>, code: u16, value: &str) {
    if !value.is_empty() {
        option(block, code, value.as_bytes());
    }
}

fn pad(block: &mut Vec<u8>) {
    block.resize(block.len().next_multiple_of(4), 0);
}

impl<W: Write> Writer<W> {
    /// Starts a file.
    pub fn new(out: W, about: &About) -> io::Result<Self> {
        let snap = if about.snap == 0 { usize::MAX } else { about.snap as usize };
        let mut writer = Writer { out, snap, block: Vec::with_capacity(2048), packets: 0 };
        let body = &mut writer.block;
        body.extend_from_slice(&0x1A2B_3C4D_u32.to_le_bytes());
        body.extend_from_slice(&1u16.to_le_bytes());
        body.extend_from_slice(&0u16.to_le_bytes());
        // The section's length is unspecified.
        body.extend_from_slice(&u64::MAX.to_le_bytes());
        text(body, OPTION_COMMENT, &about.comment);
        text(body, SECTION_APPLICATION, concat!("tailback ", env!("CARGO_PKG_VERSION")));
        option(body, OPTION_END, &[]);
        writer.close(0x0A0D_0D0A)?;
        let body = &mut writer.block;
        body.extend_from_slice(&ETHERNET.to_le_bytes());
        body.extend_from_slice(&0u16.to_le_bytes());
        body.extend_from_slice(&about.snap.to_le_bytes());
        text(body, INTERFACE_NAME, &about.name);
        text(body, INTERFACE_DESCRIPTION, &about.description);
        option(body, INTERFACE_RESOLUTION, &[9]);
        option(body, OPTION_END, &[]);
        writer.close(1)?;
        Ok(writer)
    }

    /// Writes the block with the prepared body.
    fn close(&mut self, kind: u32) -> io::Result<()> {
        let length = (self.block.len() as u32 + 12).to_le_bytes();
        self.out.write_all(&kind.to_le_bytes())?;
        self.out.write_all(&length)?;
        self.out.write_all(&self.block)?;
        self.out.write_all(&length)?;
        self.block.clear();
        Ok(())
    }

    /// Writes a frame seen at `t_ns`: `frame` holds the bytes kept of `wire_bytes`.
    pub fn packet(&mut self, t_ns: u64, frame: &[u8], wire_bytes: u32) -> io::Result<()> {
        let kept = &frame[..frame.len().min(self.snap)];
        for word in [0, (t_ns >> 32) as u32, t_ns as u32, kept.len() as u32, wire_bytes] {
            self.block.extend_from_slice(&word.to_le_bytes());
        }
        self.block.extend_from_slice(kept);
        pad(&mut self.block);
        self.packets += 1;
        self.close(6)
    }

    /// Ends the file.
    pub fn finish(mut self) -> io::Result<u64> {
        self.out.flush()?;
        Ok(self.packets)
    }
}
