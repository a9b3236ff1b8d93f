//! A handshake without cryptography: the messages of TLS 1.3 in their order and with their usual sizes, and keys that
//! change nothing.
//!
//! What a message means is its length, two bytes, and for the two that carry transport parameters those; the rest is
//! zeros.

/// What is added to a packet in place of the AEAD's tag (RFC 9001 section 5.3).
pub const TAG: [u8; 16] = [0x5a; 16];

/// Bytes of the four messages, which is what a handshake with a small ECDSA certificate takes: ClientHello, ServerHello,
/// EncryptedExtensions to Finished, and the client's Finished. RFC 8448 section 3 has 196, 90, 657 and 36 with RSA.
const SIZES: [usize; 4] = [250, 90, 700, 36];

/// One side's part in the handshake.
#[derive(Debug)]
pub struct Handshake {
    is_client: bool,
    /// Our transport parameters, as they are written.
    params: Vec<u8>,
    /// Theirs, once they are here.
    pub peer_params: Option<Vec<u8>>,
    /// The message that is sent or received next.
    next: usize,
    received: Vec<u8>,
}

/// What follows from a message written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keys {
    /// No keys.
    None,
    /// Keys for the next packet number space.
    Next,
}

impl Handshake {
    /// A side with its transport parameters.
    pub fn new(is_client: bool, params: Vec<u8>) -> Self {
        Handshake { is_client, params, peer_params: None, next: 0, received: Vec::new() }
    }

    /// Is it still under way?
    pub fn is_under_way(&self) -> bool {
        self.next < SIZES.len()
    }

    fn sends(&self, message: usize) -> bool {
        matches!(message, 0 | 3) == self.is_client
    }

    /// Bytes of the peer's messages arrived; true once the peer's parameters are known for the first time.
    pub fn read(&mut self, bytes: &[u8]) -> bool {
        self.received.extend_from_slice(bytes);
        let knew = self.peer_params.is_some();
        while self.next < SIZES.len() && !self.sends(self.next) && self.received.len() >= 2 {
            let length = usize::from(u16::from_le_bytes([self.received[0], self.received[1]]));
            let size = SIZES[self.next].max(length + 2);
            if self.received.len() < size {
                break;
            }
            if length > 0 {
                self.peer_params = Some(self.received[2..2 + length].to_vec());
            }
            self.received.drain(..size);
            self.next += 1;
            // The keys that come with a message received are asked for before the next is.
            if self.is_client {
                break;
            }
        }
        !knew && self.peer_params.is_some()
    }

    /// Write what is to be sent now; the keys that follow. Asked again until it writes nothing.
    pub fn write(&mut self, out: &mut Vec<u8>, keys_given: &mut usize) -> Keys {
        if self.next < SIZES.len() && self.sends(self.next) {
            let params: &[u8] = if matches!(self.next, 0 | 2) { &self.params } else { &[] };
            let end = out.len() + SIZES[self.next].max(params.len() + 2);
            out.extend_from_slice(&(params.len() as u16).to_le_bytes());
            out.extend_from_slice(params);
            out.resize(end, 0);
            self.next += 1;
        }
        // Handshake keys follow ServerHello, those for data the server's Finished, at either side.
        let due = self.next.saturating_sub(1).min(2);
        if *keys_given < due {
            *keys_given += 1;
            return Keys::Next;
        }
        Keys::None
    }
}
