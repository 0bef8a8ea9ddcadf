//! Takes the kernel out of its compressed file.
//!
//! A machine that is emulated spends a third of its boot on unpacking itself;
//! done here, it is done once. Kernels compressed in other ways boot as they are.

/// Where a `bzImage` says how long its setup is, and where its payload lies
/// behind that. See the kernel's x86 boot protocol, 2.08.
const SETUP_SECTORS: usize = 0x1f1;
const MAGIC: usize = 0x202;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH: usize = 0x24c;

/// No kernel is larger, unpacked.
const LARGEST: usize = 512 << 20;

const LZ4_LEGACY: [u8; 4] = [0x02, 0x21, 0x4c, 0x18];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The entry for virtual machines, without which only the packed form boots.
const PVH_NOTE: [u8; 8] = [18, 0, 0, 0, b'X', b'e', b'n', 0];

pub(super) fn is_kernel(image: &[u8]) -> bool {
    image.get(MAGIC..MAGIC + 4) == Some(b"HdrS")
}

/// The ELF file inside, if it is there and can be started by itself.
pub(super) fn vmlinux(image: &[u8]) -> Option<Vec<u8>> {
    let payload = payload(image)?;
    let (body, unpacked_size) = payload.split_at_checked(payload.len().checked_sub(4)?)?;
    let size = usize::try_from(u32::from_le_bytes(unpacked_size.try_into().ok()?)).ok()?;
    if size > LARGEST {
        return None;
    }
    let unpacked = if body.starts_with(&LZ4_LEGACY) {
        lz4_legacy(&body[4..], size)?
    } else if body.starts_with(&ZSTD) {
        zstd::bulk::decompress(body, size).ok()?
    } else {
        return None;
    };
    let is_elf = unpacked.len() == size && unpacked.starts_with(b"\x7fELF");
    let starts = || unpacked.windows(PVH_NOTE.len()).any(|window| window == PVH_NOTE);
    (is_elf && starts()).then_some(unpacked)
}

fn payload(image: &[u8]) -> Option<&[u8]> {
    let number = |at: usize| {
        let bytes = image.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(bytes)).ok()
    };
    let sectors = match *image.get(SETUP_SECTORS)? {
        0 => 4,
        sectors => usize::from(sectors),
    };
    let start = (sectors + 1) * 512 + number(PAYLOAD_OFFSET)?;
    image.get(start..start.checked_add(number(PAYLOAD_LENGTH)?)?)
}

/// Blocks, each behind its length.
fn lz4_legacy(mut packed: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut unpacked = Vec::with_capacity(size);
    while let Some((length, rest)) = packed.split_first_chunk::<4>() {
        let (block, rest) =
            rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
        lz4_block(block, &mut unpacked, size)?;
        packed = rest;
    }
    Some(unpacked)
}

/// Literals and references to what is already there, in turns.
fn lz4_block(mut block: &[u8], out: &mut Vec<u8>, most: usize) -> Option<()> {
    let start = out.len();
    while let Some((&token, rest)) = block.split_first() {
        block = rest;
        let count = length(usize::from(token >> 4), &mut block)?;
        let (literals, rest) = block.split_at_checked(count)?;
        out.extend_from_slice(literals);
        block = rest;
        let Some((distance, rest)) = block.split_first_chunk::<2>() else {
            // The last sequence has no reference.
            return block.is_empty().then_some(());
        };
        block = rest;
        let distance = usize::from(u16::from_le_bytes(*distance));
        let count = length(usize::from(token & 15), &mut block)? + 4;
        if distance == 0 || distance > out.len() - start || out.len() + count > most {
            return None;
        }
        let from = out.len() - distance;
        if distance >= count {
            out.extend_from_within(from..from + count);
        } else {
            // It refers to what it makes itself.
            for at in from..from + count {
                out.push(out[at]);
            }
        }
    }
    Some(())
}

fn length(nibble: usize, block: &mut &[u8]) -> Option<usize> {
    let mut length = nibble;
    if nibble == 15 {
        loop {
            let (&more, rest) = block.split_first()?;
            *block = rest;
            length = length.checked_add(usize::from(more))?;
            if more != u8::MAX {
                break;
            }
        }
    }
    Some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that looks as a kernel does, around `body`.
    fn packed(body: &[u8], size: u32) -> Vec<u8> {
        let mut image = vec![0; 1024];
        image[SETUP_SECTORS] = 1;
        image[MAGIC..MAGIC + 4].copy_from_slice(b"HdrS");
        let length = u32::try_from(body.len() + 4).unwrap();
        image[PAYLOAD_LENGTH..PAYLOAD_LENGTH + 4].copy_from_slice(&length.to_le_bytes());
        image.extend_from_slice(body);
        image.extend_from_slice(&size.to_le_bytes());
        image
    }

    fn elf() -> Vec<u8> {
        [&b"\x7fELF and more "[..], &PVH_NOTE, &[b'x'; 40]].concat()
    }

    #[test]
    fn references_may_overlap_what_they_make() {
        // Four literals, a reference 1 back of 39 more, and the last literal.
        let mut body = LZ4_LEGACY.to_vec();
        let head = [&b"\x7fELF and more "[..], &PVH_NOTE, b"x"].concat();
        let count = u8::try_from(head.len()).unwrap();
        let mut block = vec![0xff, count - 15];
        block.extend(&head);
        block.extend([1, 0, 38 - 4 - 15, 0x10, b'x']);
        body.extend(u32::try_from(block.len()).unwrap().to_le_bytes());
        body.extend(&block);
        let image = packed(&body, u32::try_from(elf().len()).unwrap());
        assert!(is_kernel(&image));
        assert_eq!(vmlinux(&image), Some(elf()));
    }

    #[test]
    fn zstandard_is_understood_and_other_things_are_left_alone() {
        let size = u32::try_from(elf().len()).unwrap();
        let body = zstd::bulk::compress(&elf(), 3).unwrap();
        assert_eq!(vmlinux(&packed(&body, size)), Some(elf()));
        assert_eq!(vmlinux(&packed(&body, size + 1)), None);
        assert_eq!(vmlinux(&packed(b"BZh91AY", 100)), None);
        assert_eq!(vmlinux(b"short"), None);
    }

    #[test]
    fn a_reference_to_nowhere_is_refused() {
        let mut out = Vec::new();
        assert_eq!(lz4_block(&[0x10, b'a', 9, 0, 0x10], &mut out, 100), None);
    }
}
