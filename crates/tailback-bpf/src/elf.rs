//! Sections of a 64-bit little-endian ELF file, and the changes a loader makes in them.

use std::ops::Range;

/// A section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its address when loaded, relative to the file's base.
    pub address: u64,
    /// Its byte range in the file.
    pub place: Range<usize>,
}

/// Name of the section with congestion controls; a ".link" suffix means that a link keeps them registered.
const OPS: &[u8] = b".struct_ops";
const LINK: &[u8] = b".struct_ops.link\0";

fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(size)?)?;
    Some(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

/// The section with congestion controls.
pub fn ops(file: &[u8]) -> Option<Section> {
    if file.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let table = number(file, 40, 8)? as usize;
    let (size, count) = (number(file, 58, 2)? as usize, number(file, 60, 2)? as usize);
    let names = number(file, 62, 2)? as usize;
    let field = |section: usize, at: usize, size_of: usize| {
        number(file, table.checked_add(section.checked_mul(size)?)?.checked_add(at)?, size_of)
    };
    let names = field(names, 24, 8)? as usize;
    for section in 0..count {
        let name = file.get(names.checked_add(field(section, 0, 4)? as usize)?..)?;
        let name = name.split(|byte| *byte == 0).next()?;
        if name == OPS || name == &LINK[..LINK.len() - 1] {
            let start = field(section, 24, 8)? as usize;
            let end = start.checked_add(field(section, 32, 8)? as usize)?;
            file.get(start..end)?;
            return Some(Section { address: field(section, 16, 8)?, place: start..end });
        }
    }
    None
}

/// Sets the kernel name of an object's congestion control. The struct begins with the name (`vmlinux.h`). Older
/// versions of libbpf do not know the section ".struct_ops.link": it is renamed to ".struct_ops", and the registering
/// code makes the link.
pub fn rename(object: &mut [u8], name: &str) -> bool {
    let Some(section) = ops(object) else { return false };
    let Some(place) = object[section.place].get_mut(..16) else { return false };
    place.fill(0);
    let bytes = &name.as_bytes()[..name.len().min(15)];
    place[..bytes.len()].copy_from_slice(bytes);
    for at in 0..object.len().saturating_sub(LINK.len()) {
        if object[at..].starts_with(LINK) {
            object[at + OPS.len()] = 0;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_elf_has_no_sections() {
        for bytes in [&b""[..], b"\x7fELF", b"\x7fELF\x02\x01", &[0; 200]] {
            assert_eq!(ops(bytes), None);
        }
        let mut torn = vec![0xff; 300];
        torn[..6].copy_from_slice(b"\x7fELF\x02\x01");
        assert_eq!(ops(&torn), None);
        assert!(!rename(&mut torn, "name"));
    }
}
